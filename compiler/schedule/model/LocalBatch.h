// The time of a layer as a function of its *local batch*: the number of samples on one rank that runs the layer. Times
// are known at some sizes and interpolated between them. The reader of specs and the planner both use this file.
#pragma once

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace pipec::schedule {

/// The time of `samples` samples on one rank, in picoseconds.
struct TimeOfSamples {
  int64_t samples = 1;
  int64_t time = 0;
  bool operator==(const TimeOfSamples &) const = default;
};
/// Ascending by samples, which are at least 1.
using TimesBySamples = std::vector<TimeOfSamples>;

/// The time of `samples` samples. Linear between two entries; below the first entry, the time of the first; above the
/// last entry, in proportion to it. Rounded half up, at most limits::kTime. Without entries: 0.
inline int64_t timeOf(const TimesBySamples &times, int64_t samples) {
  if (times.empty())
    return 0;
  const auto above =
      std::find_if(times.begin(), times.end(), [&](const TimeOfSamples &entry) { return samples <= entry.samples; });
  if (above == times.begin())
    return times.front().time;
  // Rounds n / d half up.
  const auto rounded = [](__int128 n, int64_t d) { return (2 * n + d) / (2 * __int128(d)); };
  if (above == times.end()) {
    const __int128 time = rounded(__int128(times.back().time) * samples, times.back().samples);
    return int64_t(std::min<__int128>(time, limits::kTime));
  }
  const TimeOfSamples &below = *(above - 1);
  const __int128 sum =
      __int128(below.time) * (above->samples - samples) + __int128(above->time) * (samples - below.samples);
  return int64_t(rounded(sum, above->samples - below.samples));
}

} // namespace pipec::schedule
