// File → bytes → a plan that may run: reading, and the order in which the rules are asked.
#include "runtime/plan/Load.h"

#include "runtime/plan/Format.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Rules.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pipec::plan {
namespace {

Status readError(const std::string &path, int error) {
  return Status::input(fmt::format("{}: cannot read: {}", path, std::strerror(error)));
}

Status tooLong(const std::string &path, int64_t most) {
  return Status::input(fmt::format("{}: longer than {} bytes, which is the most", path, most));
}

/// `used` bytes of a file's beginning.
bool beginsAsPlan(const std::vector<uint8_t> &bytes, size_t used) {
  return std::equal(kMagic.begin(), kMagic.begin() + ptrdiff_t(std::min(used, kMagic.size())), bytes.begin());
}

/// read(2) to the file's end, or to one byte over `most`; the errno, or 0. `size` is what the file says of itself: a
/// pipe says 0.
int readAll(int file, size_t size, size_t most, bool onlyPlan, std::vector<uint8_t> &bytes) {
  constexpr size_t kFirst = size_t(1) << 20;
  size_t used = 0;
  while (used <= most && (!onlyPlan || beginsAsPlan(bytes, used))) {
    if (bytes.size() == used)
      bytes.resize(std::min(used == 0 ? kFirst : std::max(size + 1, used + used / 2), most + 1));
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

Status read(const std::string &path, int64_t most, bool onlyPlan, std::vector<uint8_t> &bytes) {
  bytes.clear();
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return readError(path, errno);
  struct stat about = {};
  const bool regular = ::fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  const int64_t size = regular ? int64_t(about.st_size) : 0;
  const int error = size > most ? 0 : readAll(file, size_t(size), size_t(most), onlyPlan, bytes);
  ::close(file);
  if (error != 0)
    return readError(path, error);
  return size > most || int64_t(bytes.size()) > most ? tooLong(path, most) : Status();
}

} // namespace

Status readFile(const std::string &path, std::vector<uint8_t> &bytes) {
  return read(path, limits::kPlanBytes, true, bytes);
}

Status readBytes(const std::string &path, int64_t most, std::vector<uint8_t> &bytes) {
  return read(path, most, false, bytes);
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
  if (!status.ok() && status.message.find(path) != 0)
    status.message = fmt::format("{}: {}", path, status.message);
  return status;
}

} // namespace pipec::plan
