// The run's clock: picoseconds since an instant of CLOCK_MONOTONIC that all processes of a machine agreed on.
#pragma once

#include "runtime/plan/Plan.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace pipec::runtime {

class Clock {
public:
  using Time = plan::Time;

  /// `start`: nanoseconds of CLOCK_MONOTONIC that become time 0.
  explicit Clock(int64_t start) : start(start) {}

  static int64_t monotonic() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
  }

  /// Negative before the start.
  Time now() const { return (monotonic() - start) * 1000; }

  /// Returns at or after `time`, never before. The thread's timer slack adds to the delay.
  void sleepUntil(Time time) const {
    int64_t at = nanoseconds(time);
    timespec t{time_t(at / 1'000'000'000), long(at % 1'000'000'000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR)
      ;
  }

  /// For timers: steady_clock is CLOCK_MONOTONIC.
  std::chrono::steady_clock::time_point at(Time time) const {
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(nanoseconds(time)));
  }

private:
  int64_t nanoseconds(Time time) const { return start + time / 1000 + (time % 1000 > 0); }
  int64_t start;
};

} // namespace pipec::runtime
