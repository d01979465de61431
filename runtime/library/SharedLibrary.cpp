// dlopen and dlsym, and the trial in a process of its own.
#include "runtime/library/SharedLibrary.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pipec::runtime {

Status SharedLibrary::open(const std::string &from, const LibraryHeader &header) {
  path = from;
  what = header.what;
  // dlopen searches for a name without a slash in places that nobody named.
  const std::string place = path.find('/') == std::string::npos ? "./" + path : path;
  std::error_code error;
  if (!std::filesystem::exists(place, error))
    return Status::input(fmt::format("{}: there is no such {}", path, what));
  handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return Status::input(fmt::format("{}: cannot be loaded as a {}: {}", path, what, dlerror()));
  std::function<uint32_t()> version;
  if (!find(header.version, version))
    return Status::input(
        fmt::format("{}: is not a {}, it has no {} (see {})", path, what, header.version, header.file));
  built = version();
  return {};
}

void *SharedLibrary::symbol(const char *name) const { return dlsym(handle, name); }

Status SharedLibrary::missing() const {
  return lacks ? Status::input(fmt::format("{}: the {} has no {}", path, what, lacks)) : Status{};
}

Status SharedLibrary::together(const char *one, bool hasOne, const char *other, bool hasOther) const {
  if (hasOne == hasOther)
    return {};
  return Status::input(fmt::format("{}: the {} has {} and no {}, expected both or neither", path, what,
                                   hasOne ? one : other, hasOne ? other : one));
}

namespace {

[[noreturn]] void openAndTell(const std::string &path, const char *what, const std::function<Status()> &open,
                              int pipe) {
  if (int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0)
    dup2(nowhere, STDOUT_FILENO); // what it prints when it is loaded, it prints again when it is meant
  Status status;
  try {
    status = open();
  } catch (const std::exception &error) {
    status = Status::input(fmt::format("{}: cannot be loaded as a {}: {}", path, what, error.what()));
  }
  std::string word = status.message + '\n'; // its end: the word is whole
  ssize_t written = write(pipe, word.data(), word.size());
  _exit(written == ssize_t(word.size()) ? int(status.code) : int(Code::Run));
}

} // namespace

Status tryApart(const std::string &path, const char *what, const std::function<Status()> &open) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return Status::run(fmt::format("{}: cannot be tried: {}", path, std::strerror(errno)));
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    openAndTell(path, what, open, ends[1]);
  }
  close(ends[1]);
  std::string word;
  std::array<char, 1024> part;
  while (child > 0) {
    ssize_t count = read(ends[0], part.data(), part.size());
    if (count > 0)
      word.append(part.data(), size_t(count));
    else if (count == 0 || errno != EINTR)
      break;
  }
  close(ends[0]);
  int end = 0;
  if (child < 0 || waitpid(child, &end, 0) != child)
    return Status::run(fmt::format("{}: cannot be tried: {}", path, std::strerror(errno)));
  if (WIFSIGNALED(end))
    return Status::input(fmt::format("{}: loading this {} ends the process with signal {} ({})", path, what,
                                     WTERMSIG(end), strsignal(WTERMSIG(end))));
  if (word.empty() || word.back() != '\n') // it left by itself, without a word
    return Status::input(
        fmt::format("{}: loading this {} ends the process with exit code {}", path, what, WEXITSTATUS(end)));
  word.pop_back();
  return {Code(WEXITSTATUS(end)), word};
}

} // namespace pipec::runtime
