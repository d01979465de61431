// The run's clock: picoseconds since an instant of CLOCK_MONOTONIC that all processes of a machine agreed on.
#pragma once

#include "runtime/plan/Plan.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

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

  /// Returns at or after `time`, never before. The timer slack of the thread adds to it.
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

/// The same clock for one thread that reads it often: between two real readings, a millisecond apart, it goes by the
/// processor's time stamp counter, if the kernel itself keeps its time by that. Never goes back.
class QuickClock {
public:
  using Time = plan::Time;
  explicit QuickClock(const Clock &clock) : clock(clock) {}

  Time now() {
#ifdef __x86_64__
    uint64_t gone = __rdtsc() - anchor;
    if (gone < span)
      return last = std::max(last, anchorTime + Time(gone * rate >> kShift));
#endif
    return last = std::max(last, anchored());
  }

private:
  static constexpr unsigned kShift = 20;
  Time anchored();

  const Clock &clock;
  Time last = INT64_MIN;
  uint64_t anchor = 0; // counter and clock, read together
  Time anchorTime = 0;
  uint64_t span = 0; // counts after the anchor that are not read from the clock; 0 until the rate is known
  uint64_t rate = 0; // picoseconds a count << kShift
};

} // namespace pipec::runtime
