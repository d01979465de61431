#include "runtime/checkpoint/FolderFiles.h"

#include "runtime/plan/Units.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pipec::runtime {
namespace {

constexpr size_t kPart = size_t(1) << 20; // bytes that are read at once

const char *kindOf(mode_t mode) {
  switch (mode & S_IFMT) {
  case S_IFDIR:
    return "a directory";
  case S_IFLNK:
    return "a link";
  case S_IFIFO:
    return "a FIFO";
  case S_IFSOCK:
    return "a socket";
  default:
    return "a device";
  }
}

/// What stands at `path` if it is there and no regular file, else what errno says.
std::string whyNot(const std::string &path) {
  const int error = errno;
  struct stat about = {};
  if (::lstat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode))
    return fmt::format("is {}, expected a file", kindOf(about.st_mode));
  return std::strerror(error);
}

Status cannotWrite(const std::string &path, const std::string &why) {
  return Status::run(fmt::format("{}: cannot be written: {}", units::escaped(path), why));
}

/// A new file; -1 and errno if it cannot be made.
int create(const std::string &path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return -1;
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

/// All of the bytes, made durable; errno says what failed.
bool writeAll(int file, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR)
      return false;
    bytes = bytes.subspan(size_t(std::max<ssize_t>(count, 0)));
  }
  return ::fsync(file) == 0;
}

} // namespace

FolderFile::FolderFile(const std::string &path)
    : file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) {
  struct stat about = {};
  if (file >= 0 && ::fstat(file, &about) == 0 && S_ISREG(about.st_mode)) {
    bytes = about.st_size;
    return;
  }
  reason = whyNot(path);
  if (file >= 0)
    ::close(file);
  file = -1;
}

FolderFile::~FolderFile() {
  if (file >= 0)
    ::close(file);
}

bool FolderFile::fail() {
  reason = std::strerror(errno);
  return false;
}

bool FolderFile::read(std::vector<char> &part) {
  part.resize(kPart);
  ssize_t count = 0;
  do
    count = ::read(file, part.data(), part.size());
  while (count < 0 && errno == EINTR);
  part.resize(size_t(std::max<ssize_t>(count, 0)));
  return count >= 0 || fail();
}

bool FolderFile::sync() { return ::fsync(file) == 0 || fail(); }

bool readFolderFile(const std::string &path, int64_t most, std::vector<uint8_t> &bytes, std::string &why) {
  bytes.clear();
  FolderFile file(path);
  std::vector<char> part;
  bool whole = bool(file);
  while (whole && int64_t(bytes.size()) <= most && (whole = file.read(part)) && !part.empty())
    bytes.insert(bytes.end(), part.begin(), part.end());
  why = file.why();
  if (whole && int64_t(bytes.size()) > most) {
    why = fmt::format("is longer than {} bytes, the most that is read", most);
    whole = false;
  }
  return whole;
}

Status createFolderFile(const std::string &path) {
  const int file = create(path);
  if (file < 0)
    return cannotWrite(path, whyNot(path));
  ::close(file);
  return {};
}

Status replaceFolderFile(const std::string &path, std::span<const uint8_t> bytes) {
  const std::string partial = path + ".partial";
  const int file = create(partial);
  if (file < 0)
    return cannotWrite(partial, whyNot(partial));
  bool done = writeAll(file, bytes);
  int error = errno;
  ::close(file);
  if (done && !(done = ::rename(partial.c_str(), path.c_str()) == 0))
    error = errno;
  if (done)
    return {};
  ::unlink(partial.c_str());
  return cannotWrite(path, std::strerror(error));
}

} // namespace pipec::runtime
