#include "tools/pipec/Stopping.h"

#include "runtime/plan/Units.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace pipec {

Status readTime(const std::string &time, int64_t &milliseconds) {
  constexpr int64_t kPicoseconds = 1'000'000'000; // of a millisecond
  milliseconds = 0;
  if (time.empty())
    return {};
  const units::Quantity quantity = units::parseDuration(time);
  if (!quantity.ok())
    return Status::usage("--time: " + quantity.error);
  milliseconds = quantity.value / kPicoseconds;
  if (milliseconds < 1)
    return Status::usage("--time: expected 1ms or more, found " + time);
  return {};
}

Stopping::Stopping(int64_t milliseconds, bool byInterrupt) {
  struct sigaction now{};
  sigaction(SIGINT, nullptr, &now);
  byInterrupt = byInterrupt && now.sa_handler != SIG_IGN;
  if (milliseconds == 0 && !byInterrupt)
    return;
  sigset_t signals;
  sigemptyset(&signals);
  if (byInterrupt)
    sigaddset(&signals, SIGINT);
  ends = ::eventfd(0, EFD_CLOEXEC);
  interrupts = ::signalfd(-1, &signals, SFD_CLOEXEC);
  if (ends < 0 || interrupts < 0)
    return; // without descriptors nothing stops early, and SIGINT has its default effect
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  thread = std::thread([this, milliseconds] { watch(milliseconds); });
}

Stopping::~Stopping() {
  if (thread.joinable()) {
    const uint64_t one = 1;
    (void)!::write(ends, &one, sizeof one);
    thread.join();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  for (const int file : {interrupts, ends})
    if (file >= 0)
      ::close(file);
}

void Stopping::watch(int64_t milliseconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  bool waits = milliseconds > 0; // whether there is a time limit
  while (true) {
    const int64_t left =
        milliseconds - std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
    pollfd files[] = {{interrupts, POLLIN, 0}, {ends, POLLIN, 0}};
    const int found = ::poll(files, 2, waits ? int(std::clamp<int64_t>(left, 0, INT_MAX)) : -1);
    if (files[1].revents != 0)
      return;
    const char *why = nullptr;
    if (found > 0) {
      signalfd_siginfo info;
      (void)!::read(interrupts, &info, sizeof info);
      if (cause.load() == std::string("SIGINT"))
        _exit(kInterrupted);
      why = "SIGINT";
    } else if (found == 0 && left <= 0) {
      why = "--time";
    }
    if (!why)
      continue;
    waits = false;
    cause = why;
    source.request_stop();
  }
}

} // namespace pipec
