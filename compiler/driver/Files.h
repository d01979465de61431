// The files that a command line names. A command may read one more than once: its beginning, to see what kind of file
// it is; all of it; and in a search all of it again for each trial. A file that cannot be read twice, such as a pipe or
// standard input (`-`), is read once and its bytes are kept.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace pipec {

/// Standard input where a file is read, standard output where one is written.
inline constexpr std::string_view kStandard = "-";
/// What messages call a file that is read.
inline std::string nameOf(const std::string &path) { return path == kStandard ? "<stdin>" : path; }

/// Whether the bytes of this name are there already, made or read.
bool isKept(const std::string &path);

/// The bytes of a file that cannot be read twice: all of a plan, of another at most one more than an order file may
/// have. Null for a file that can be, and for what is no file.
struct Kept {
  Status status;
  std::vector<uint8_t> bytes;
};
const Kept *keptOf(const std::string &path);

/// Has keptOf find this text under a name, as if it had been read.
void keep(const std::string &name, const std::string &text);

/// What a file is, by how it begins, or by the suffix .csv. Unknown: it cannot be read, or is none of them; whoever
/// reads it then says what is wrong with it.
enum class FileKind : uint8_t { Unknown, Spec, Plan, Order };
FileKind kindOf(const std::string &path);
inline bool isPlan(const std::string &path) { return kindOf(path) == FileKind::Plan; }

/// An error where the file is known to be of none of the kinds that are expected ("a spec or a plan"): what it is, and
/// which command takes it.
Status expectKind(const std::string &path, std::string_view expected, std::initializer_list<FileKind> kinds);

/// The message of a Status without the file's name, with which those of reading begin.
std::string withoutName(const std::string &message, const std::string &path);

/// As plan::keepsInputs, for -o; standard output destroys nothing.
Status keepsInputs(const std::string &output, std::initializer_list<std::string> inputs);

/// As plan::readFile.
Status readPlan(const std::string &path, std::vector<uint8_t> &bytes);

/// As plan::readBytes.
Status readBytes(const std::string &path, int64_t most, std::vector<uint8_t> &bytes);

} // namespace pipec
