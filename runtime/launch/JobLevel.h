// JobLevel decides how many of their windows background jobs may fill, so that a step is slowed down by no more than
// promised. After every 32 steps each process reports its median step time with the job's work and without. The step
// time of the run is that of the slowest process. A broken promise halves the level, a kept one raises it by a tenth of
// kAll.
#pragma once

#include "runtime/plan/Plan.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace pipec::runtime {

class JobLevel {
public:
  static constexpr int kAll = 1000; // thousandths of the windows; the longest windows are filled first

  /// `processes`: how many processes report. `slowDown`: the promised slowdown, in millionths of a step.
  JobLevel(int32_t processes, int64_t slowDown) : processes(processes), slowDown(slowDown) {}

  /// Takes the medians of one process, in picoseconds. Once all processes have reported, returns the new level if it
  /// has changed.
  std::optional<int> heard(plan::Time solo, plan::Time filled) {
    longest.solo = std::max(longest.solo, solo);
    longest.filled = std::max(longest.filled, filled);
    if (++told != processes)
      return std::nullopt;
    const bool broken = __int128(longest.filled) * 1'000'000 > __int128(longest.solo) * (1'000'000 + slowDown);
    const int next = broken ? level / 2 : std::min(level + kAll / 10, kAll);
    told = 0;
    longest = {};
    return std::exchange(level, next) == next ? std::nullopt : std::optional(next);
  }

  int now() const { return level; }

private:
  const int32_t processes;
  const int64_t slowDown;
  struct {
    plan::Time solo = 0, filled = 0;
  } longest;
  int32_t told = 0;
  int level = kAll;
};

} // namespace pipec::runtime
