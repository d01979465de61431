// OwnTime measures the time in which this process has run. Time in which the process or its machine was stopped does
// not count as waiting: what the process waited for may have come long ago.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

namespace pipec::runtime {

/// Times are nanoseconds of CLOCK_MONOTONIC.
class OwnTime {
public:
  /// To call regularly: at `now`, while the call was due at `due`. A delay of kLong or more, longer than any thread
  /// waits for a processor, means that the process was stopped, and does not count as time that it ran.
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
