// The time in which this process runs. A process that was stopped, or whose machine was, is not late: what it waited
// for may have come long ago.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

namespace pipec::runtime {

/// Times are nanoseconds of CLOCK_MONOTONIC.
class OwnTime {
public:
  /// To call time and again: at `now`, where that was due at `due`. What lies between counts for nobody once it is
  /// longer than any thread waits for a processor.
  void tick(int64_t now, int64_t due) {
    if (now - due < kLong)
      return;
    gaps.push_back({due, now});
    if (gaps.size() > kMost)
      gaps.pop_front();
  }

  /// For how long the process has run from `since` to `now`.
  int64_t between(int64_t since, int64_t now) const {
    int64_t ran = now - since;
    for (const Gap &gap : gaps)
      ran -= std::max<int64_t>(std::min(gap.to, now) - std::max(gap.from, since), 0);
    return ran;
  }

private:
  static constexpr int64_t kLong = 500'000'000;
  static constexpr size_t kMost = 64;
  struct Gap {
    int64_t from, to;
  };
  std::deque<Gap> gaps;
};

} // namespace pipec::runtime
