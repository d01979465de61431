// Setting the counter by the clock. Its rate is the average since the program was loaded, so that the error of a single
// reading, tens of nanoseconds, counts for less and less.
#include "runtime/device/host/QuickClock.h"

#include "runtime/plan/Load.h"

namespace pipec::runtime {

/// The kernel watches whether the counters of all processors go on evenly and together, and says so by using them.
static bool kernelUsesCounter() {
  return plan::firstWordOf("/sys/devices/system/clocksource/clocksource0/current_clocksource") == "tsc";
}

#ifdef __x86_64__
static const struct First {
  uint64_t counter = __rdtsc();
  int64_t time = Clock::monotonic();
} kFirst; // when the program was loaded

QuickClock::Time QuickClock::anchored() {
  static const bool kUsable = kernelUsesCounter();
  constexpr Time kBetween = 1'000'000'000; // 1 ms
  if (!kUsable)
    return clock.now();
  anchor = __rdtsc();
  anchorTime = clock.now();
  double since = double(Clock::monotonic() - kFirst.time) * 1000; // picoseconds
  if (since >= kBetween && anchor > kFirst.counter) {
    double each = since / double(anchor - kFirst.counter);
    rate = uint64_t(each * double(1 << kShift));
    span = uint64_t(kBetween / each);
  }
  return anchorTime;
}
#else
QuickClock::Time QuickClock::anchored() { return clock.now(); }
#endif

} // namespace pipec::runtime
