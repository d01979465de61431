// File → bytes → a plan that may run: reading, and the order in which the rules are asked.
#include "runtime/plan/Load.h"

#include "runtime/plan/Limits.h"
#include "runtime/plan/Rules.h"

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

/// read(2) to the file's end, which may be a pipe's; the errno, or 0. Stops one byte over the limit.
int readAll(int file, std::vector<uint8_t> &bytes) {
  constexpr size_t kChunk = size_t(1) << 20;
  size_t used = 0;
  while (used <= size_t(limits::kPlanBytes)) {
    if (bytes.size() < used + kChunk)
      bytes.resize(std::min(std::max(used + kChunk, 2 * bytes.size()), size_t(limits::kPlanBytes) + kChunk));
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

} // namespace

Status readFile(const std::string &path, std::vector<uint8_t> &bytes) {
  bytes.clear();
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return readError(path, errno);
  const int error = readAll(file, bytes);
  ::close(file);
  if (error != 0)
    return readError(path, error);
  if (bytes.size() > size_t(limits::kPlanBytes))
    return Status::input(fmt::format("{}: over the limit of a plan, {} bytes", path, limits::kPlanBytes));
  return {};
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
