#include "compiler/driver/Files.h"

#include "runtime/plan/Format.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Load.h"

#include <cstdio>
#include <filesystem>
#include <map>

namespace pipec {

const Kept *keptOf(const std::string &path, int64_t most) {
  static std::map<std::string, Kept> all;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status) ||
      std::filesystem::is_directory(status))
    return nullptr;
  const auto [at, first] = all.try_emplace(path);
  if (first)
    at->second.status = plan::readFile(path, most, at->second.bytes);
  return &at->second;
}

std::string beginningOf(const std::string &path, size_t count, int64_t most) {
  if (const Kept *kept = keptOf(path, most))
    return {kept->bytes.begin(), kept->bytes.begin() + ptrdiff_t(std::min(count, kept->bytes.size()))};
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return {};
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file)
    return {};
  std::string bytes(count, '\0');
  bytes.resize(std::fread(bytes.data(), 1, count, file));
  std::fclose(file);
  return bytes;
}

bool isPlan(const std::string &path) {
  return beginningOf(path, plan::kMagic.size(), limits::kSpecBytes) == plan::kMagic;
}

Status readPlan(const std::string &path, std::vector<uint8_t> &bytes) {
  const Kept *kept = keptOf(path, limits::kSpecBytes);
  if (!kept)
    return plan::readFile(path, bytes);
  bytes = kept->bytes;
  return kept->status;
}

Status readBytes(const std::string &path, int64_t most, std::vector<uint8_t> &bytes) {
  const Kept *kept = keptOf(path, most);
  if (!kept)
    return plan::readBytes(path, most, bytes);
  bytes = kept->bytes;
  return int64_t(bytes.size()) > most ? plan::tooLong(path, most) : kept->status;
}

} // namespace pipec
