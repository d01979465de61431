// The run's clock for a thread that reads it too often for system calls.
#pragma once

#include "runtime/device/Clock.h"

#include <algorithm>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace pipec::runtime {

/// The same clock for one thread that reads it often. Between two real readings, a millisecond apart, it uses the
/// processor's time stamp counter, if the kernel keeps its time by that too. Never goes back.
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
  uint64_t span = 0; // counts after the anchor without reading the clock; 0 until the rate is known
  uint64_t rate = 0; // picoseconds per count << kShift
};

} // namespace pipec::runtime
