#include "compiler/driver/Diagnostics.h"

#include "compiler/driver/Files.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Units.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

using namespace mlir;

namespace pipec {

namespace {

/// Printable ASCII and UTF-8 stay as they are; any other byte is a question mark, so that columns stay, and so are
/// those of the control characters U+0080 to U+009F.
std::string shown(std::string text) {
  for (size_t at = 0; at < text.size();) {
    const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.data()) + at;
    const size_t length = llvm::getNumBytesForUTF8(*begin);
    char &c = text[at];
    if (length > text.size() - at || !llvm::isLegalUTF8Sequence(begin, begin + length))
      c = '?';
    else if ((c >= 0 && c < ' ' && c != '\n') || c == 127)
      c = c == '\t' ? ' ' : '?';
    else if (length == 2 && begin[0] == 0xC2 && begin[1] < 0xA0)
      c = text[++at] = '?';
    else
      at += length - 1;
    ++at;
  }
  return text;
}

std::string lineOf(std::istream &text, unsigned number) {
  std::string line;
  for (unsigned at = 0; at != number; ++at)
    if (!std::getline(text, line))
      return {};
  return line;
}

/// A line of a regular file or of standard input, from 1; empty if there is none.
std::string lineOf(const std::string &path, unsigned number) {
  if (path == nameOf(std::string(kStandard))) {
    const std::vector<uint8_t> &bytes = keptOf(std::string(kStandard))->bytes;
    std::istringstream text(std::string(bytes.begin(), bytes.end()));
    return lineOf(text, number);
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) ||
      std::filesystem::file_size(path, error) > uintmax_t(limits::kSpecBytes) || error)
    return {};
  std::ifstream file(path, std::ios::binary);
  return lineOf(file, number);
}

/// The line and a caret; of a long one, what is around the column.
void excerpt(const std::string &path, unsigned line, unsigned column) {
  constexpr size_t kBefore = 60, kWidth = 120;
  std::string text = lineOf(path, line);
  if (text.empty() || column == 0 || column > text.size() + 1)
    return;
  size_t begin = column - 1 > kBefore ? column - 1 - kBefore : 0;
  if (text.size() <= kWidth)
    begin = 0;
  llvm::errs() << shown(text.substr(begin, kWidth)) << "\n" << std::string(column - 1 - begin, ' ') << "^\n";
}

void printOne(Location location, DiagnosticSeverity severity, const std::string &message) {
  auto place = location->findInstanceOf<FileLineColLoc>();
  if (place)
    llvm::errs() << shown(units::escaped(place.getFilename().str())) << ":" << place.getLine() << ":"
                 << place.getColumn() << ": ";
  const char *kind = severity == DiagnosticSeverity::Error     ? "error"
                     : severity == DiagnosticSeverity::Warning ? "warning"
                     : severity == DiagnosticSeverity::Note    ? "note"
                                                               : "remark";
  llvm::errs() << kind << ": " << shown(message) << "\n";
  if (place)
    excerpt(place.getFilename().str(), place.getLine(), place.getColumn());
}

} // namespace

void print(Diagnostic &diagnostic) {
  printOne(diagnostic.getLocation(), diagnostic.getSeverity(), diagnostic.str());
  for (Diagnostic &note : diagnostic.getNotes())
    printOne(note.getLocation(), DiagnosticSeverity::Note, note.str());
}

FirstError::FirstError(mlir::MLIRContext &context, Failure &failure, Said said)
    : handler(&context, [&failure, said](mlir::Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && failure.message.empty()) {
          failure.message = diagnostic.str();
          if (auto place = diagnostic.getLocation()->findInstanceOf<mlir::FileLineColLoc>()) {
            failure.file = place.getFilename().str();
            failure.line = place.getLine();
            failure.column = place.getColumn();
          }
        }
        if (said == Said::Everything)
          print(diagnostic);
        return mlir::success();
      }) {}

} // namespace pipec
