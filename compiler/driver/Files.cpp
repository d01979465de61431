#include "compiler/driver/Files.h"

#include "runtime/plan/Format.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/Write.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <map>

namespace pipec {

static std::map<std::string, Kept> all;

void keep(const std::string &name, const std::string &text) {
  Kept &kept = all[name];
  kept.status = {};
  kept.bytes.assign(text.begin(), text.end());
}

bool isKept(const std::string &path) { return all.contains(path); }

const Kept *keptOf(const std::string &path) {
  if (const auto known = all.find(path); known != all.end())
    return &known->second;
  std::error_code error;
  if (path != kStandard && !std::filesystem::is_fifo(path, error))
    return nullptr;
  Kept &kept = all[path];
  kept.status = path == kStandard ? plan::readStandardInput(nameOf(path), limits::kOrderBytes, kept.bytes)
                                  : plan::readFile(path, limits::kOrderBytes, kept.bytes);
  return &kept;
}

/// What a file begins with, at most `count` bytes; nothing of one that cannot be read.
static std::string beginningOf(const std::string &path, size_t count) {
  if (const Kept *kept = keptOf(path))
    return {kept->bytes.begin(), kept->bytes.begin() + ptrdiff_t(std::min(count, kept->bytes.size()))};
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return {};
  std::FILE *file = std::fopen(path.c_str(), "rbe");
  if (!file)
    return {};
  std::string bytes(count, '\0');
  bytes.resize(std::fread(bytes.data(), 1, count, file));
  std::fclose(file);
  return bytes;
}

/// A cell: 0F0, (0F1;1B0)OVERLAP_F_B, maybe in quotes.
static bool beginsAsOrder(std::string_view text) {
  if (text.starts_with("\""))
    text.remove_prefix(1);
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '(');
}

/// The key that every spec has, alone at the beginning of a line.
static bool hasKeyOfSpecs(std::string_view text) {
  constexpr std::string_view kKey = "pipec:";
  for (size_t at = text.find(kKey); at != text.npos; at = text.find(kKey, at + 1))
    if (at == 0 || text[at - 1] == '\n')
      return true;
  return false;
}

FileKind kindOf(const std::string &path) {
  constexpr size_t kEnough = 64 * 1024; // of comments before the first key
  std::string suffix = std::filesystem::path(path).extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string text = beginningOf(path, kEnough);
  if (text.starts_with(plan::kMagic))
    return FileKind::Plan;
  if (suffix == ".csv" || beginsAsOrder(text))
    return FileKind::Order;
  return hasKeyOfSpecs(text) ? FileKind::Spec : FileKind::Unknown;
}

Status expectKind(const std::string &path, std::string_view expected, std::initializer_list<FileKind> kinds) {
  std::error_code error;
  if (path != kStandard && !std::filesystem::exists(path, error))
    return {};
  const FileKind kind = kindOf(path);
  if (kind == FileKind::Unknown || std::find(kinds.begin(), kinds.end(), kind) != kinds.end())
    return {};
  const char *found = kind == FileKind::Plan    ? "a plan"
                      : kind == FileKind::Order ? "an order file, which pipec show and pipec verify take, and a spec "
                                                  "as schedule: {name: order, file: ...}"
                                                : "a spec, of which pipec compile makes a plan";
  return Status::input(fmt::format("expected {}, found {}", expected, found));
}

std::string withoutName(const std::string &message, const std::string &path) {
  const std::string name = units::escaped(nameOf(path)) + ": ";
  return message.starts_with(name) ? message.substr(name.size()) : message;
}

Status keepsInputs(const std::string &output, std::initializer_list<std::string> inputs) {
  return output == kStandard ? Status() : plan::keepsInputs(output, inputs, "-o");
}

Status readPlan(const std::string &path, std::vector<uint8_t> &bytes) {
  const Kept *kept = keptOf(path);
  if (!kept)
    return plan::readFile(path, bytes);
  bytes = kept->bytes;
  return kept->status;
}

Status readBytes(const std::string &path, int64_t most, std::vector<uint8_t> &bytes) {
  const Kept *kept = keptOf(path);
  if (!kept)
    return plan::readBytes(path, most, bytes);
  bytes = kept->bytes;
  return int64_t(bytes.size()) > most ? plan::tooLong(nameOf(path), most) : kept->status;
}

} // namespace pipec
