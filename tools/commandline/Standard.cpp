// A closed stream's number is taken by a handle that can neither be read nor written: open(2), O_PATH.
#include "tools/commandline/Standard.h"

#include <csignal>
#include <fcntl.h>
#include <iostream>
#include <poll.h>
#include <unistd.h>

namespace pipec {

static constexpr int kRunFailed = 4; // runtime/plan/Status.h

void guardStandardStreams() {
  int lowest = 0;
  do
    lowest = ::open("/", O_PATH);
  while (lowest >= 0 && lowest <= STDERR_FILENO);
  if (lowest >= 0)
    ::close(lowest);
  std::signal(SIGXFSZ, SIG_IGN);    // a file too large is an error of its write
  std::signal(SIGPIPE, [](int) {}); // likewise; what is executed later does not inherit a handler
}

void say(std::string_view text) { (void)!std::fwrite(text.data(), 1, text.size(), stderr); }

bool outputWritten(std::FILE *output) {
  return (output != stdout || std::cout.flush()) && std::fflush(output) == 0 && !std::ferror(output);
}

bool outputHasReader(std::FILE *output) {
  pollfd reader{::fileno(output), POLLOUT, 0};
  return ::poll(&reader, 1, 0) != 1 || (reader.revents & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}

int outputFailed(std::string_view program, std::FILE *output) {
  pollfd reader{::fileno(output), POLLOUT, 0};
  if (::poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0) {
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  say("{}: error: cannot write to standard output\n", program);
  return kRunFailed;
}

std::FILE *setOutputAside() {
  const int kept = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  std::FILE *results = kept < 0 ? nullptr : ::fdopen(kept, "w");
  if (!results)
    return stdout;
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return results;
}

} // namespace pipec
