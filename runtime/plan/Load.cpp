// Loads a plan: reads the file, decodes it, and calls the rules in order.
#include "runtime/plan/Load.h"

#include "runtime/plan/Format.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/rules/Rules.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pipec::plan {
namespace {

Status readError(const std::string &path, int error) {
  return Status::input(fmt::format("{}: cannot read: {}", units::escaped(path), std::strerror(error)));
}

/// Whether a file begins as a plan does. `used`: how many of the bytes were read.
bool beginsAsPlan(const std::vector<uint8_t> &bytes, size_t used) {
  return std::equal(kMagic.begin(), kMagic.begin() + ptrdiff_t(std::min(used, kMagic.size())), bytes.begin());
}

/// The most bytes of a file that are read: of a plan, and of a file that does not begin as one. One byte more is read
/// to see that a file is longer.
struct Most {
  int64_t ofPlan, ofOthers;
};

/// Reads to the file's end, or to one byte over the most. Returns errno, or 0. `size`: the file's size as fstat says; 0
/// for a pipe.
int readAll(int file, size_t size, const Most &most, std::vector<uint8_t> &bytes) {
  constexpr size_t kFirst = size_t(1) << 20;
  size_t used = 0;
  for (size_t all; used <= (all = size_t(beginsAsPlan(bytes, used) ? most.ofPlan : most.ofOthers));) {
    if (bytes.size() == used)
      bytes.resize(std::min(used == 0 ? kFirst : std::max(size + 1, used + used / 2), all + 1));
    const ssize_t count = ::read(file, bytes.data() + used, bytes.size() - used);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return errno;
    if (count == 0)
      break;
    used += size_t(count);
  }
  bytes.resize(used);
  return 0;
}

/// Refuses a path that is neither a regular file nor a pipe: reading it might not end, or opening it have effects.
Status refuseSpecial(const std::string &path) {
  struct stat about = {};
  if (::stat(path.c_str(), &about) != 0 || S_ISREG(about.st_mode) || S_ISFIFO(about.st_mode))
    return {};
  const char *what = S_ISDIR(about.st_mode) ? "directory" : S_ISSOCK(about.st_mode) ? "socket" : "device";
  return Status::input(fmt::format("{}: is a {}; expected a file", units::escaped(path), what));
}

/// Reads all of an open file; `path` is for messages.
Status readOpen(int file, const std::string &path, const Most &most, std::vector<uint8_t> &bytes) {
  struct stat about = {};
  const bool regular = ::fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  const int64_t size = regular ? int64_t(about.st_size) : 0, longest = std::max(most.ofPlan, most.ofOthers);
  const int error = size > longest ? 0 : readAll(file, size_t(size), most, bytes);
  if (error != 0) {
    bytes.clear();
    return readError(path, error);
  }
  return size > longest || int64_t(bytes.size()) > longest ? tooLong(path, longest) : Status();
}

Status read(const std::string &path, const Most &most, std::vector<uint8_t> &bytes) {
  bytes.clear();
  if (Status status = refuseSpecial(path); !status.ok())
    return status;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return readError(path, errno);
  const Status status = readOpen(file, path, most, bytes);
  ::close(file);
  return status;
}

} // namespace

Status tooLong(const std::string &path, int64_t most) {
  return Status::input(fmt::format("{}: longer than {} bytes, which is the most", units::escaped(path), most));
}

Status readFile(const std::string &path, std::vector<uint8_t> &bytes) { return readFile(path, 0, bytes); }

Status readFile(const std::string &path, int64_t most, std::vector<uint8_t> &bytes) {
  return read(path, {limits::kPlanBytes, most}, bytes);
}

Status readStandardInput(const std::string &name, int64_t most, std::vector<uint8_t> &bytes) {
  bytes.clear();
  return readOpen(STDIN_FILENO, name, {limits::kPlanBytes, most}, bytes);
}

Status readBytes(const std::string &path, int64_t most, std::vector<uint8_t> &bytes) {
  return read(path, {most, most}, bytes);
}

std::string firstWordOf(const std::string &path) {
  constexpr int64_t kMost = 4096;
  std::vector<uint8_t> bytes;
  if (!readBytes(path, kMost, bytes).ok())
    return {};
  const auto space = [](uint8_t byte) { return std::isspace(byte) != 0; };
  const auto begin = std::ranges::find_if_not(bytes, space);
  return {begin, std::find_if(begin, bytes.end(), space)};
}

Status verify(const Variant &variant) {
  Status status = checkVariant(variant);
  return status.ok() ? checkWhole(variant) : status;
}

Status verify(const Plan &plan) {
  Status status = checkTables(plan);
  return status.ok() ? checkWhole(plan) : status;
}

Status load(const std::string &path, Plan &plan) {
  std::vector<uint8_t> bytes;
  Status status = readFile(path, bytes);
  if (status.ok())
    status = decode(bytes, plan);
  if (status.ok())
    status = checkWhole(plan);
  if (const std::string name = units::escaped(path); !status.ok() && !status.message.starts_with(name))
    status.message = fmt::format("{}: {}", name, status.message);
  return status;
}

} // namespace pipec::plan
