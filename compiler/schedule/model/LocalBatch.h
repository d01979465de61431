// What a layer takes by its *local batch*, the samples of one rank that runs it: known at some sizes, worked out
// between them. Whoever reads a spec and whoever plans both ask here.
#pragma once

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace pipec::schedule {

/// What so many samples take on one rank, in picoseconds.
struct TimeOfSamples {
  int64_t samples = 1;
  int64_t time = 0;
  bool operator==(const TimeOfSamples &) const = default;
};
/// By samples, ascending from at least 1.
using TimesBySamples = std::vector<TimeOfSamples>;

/// Linear between two entries, below the first the first, above the last in proportion to it; half up, at most
/// limits::kTime. No entries: 0.
inline int64_t timeOf(const TimesBySamples &times, int64_t samples) {
  if (times.empty())
    return 0;
  const auto above =
      std::find_if(times.begin(), times.end(), [&](const TimeOfSamples &entry) { return samples <= entry.samples; });
  if (above == times.begin())
    return times.front().time;
  // Half up, as (2n + d) / 2d; times may fall, so the least of two goes apart.
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
