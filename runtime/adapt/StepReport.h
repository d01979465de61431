// The measurements of a step.
#pragma once

#include "runtime/plan/Plan.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace pipec::adapt {

using plan::Time;

/// Sums over the transfers of a directed link, or the operations of a rank or of one of its shards, in a slice of a
/// step.
struct Tally {
  int64_t count = 0;
  Time sum = 0, least = 0, greatest = 0; // of durations; a transfer's is from when both ends were ready to arrival
  Time planned = 0;                      // sum of planned costs; for transfers: of the latency after the wire was free
  plan::Bytes bytes = 0;                 // sum

  void add(Time took, Time planned, plan::Bytes bytes) {
    least = count == 0 ? took : std::min(least, took);
    greatest = std::max(greatest, took);
    ++count;
    sum += took;
    this->planned += planned;
    this->bytes += bytes;
  }
  void add(const Tally &more) {
    if (more.count == 0)
      return;
    least = count == 0 ? more.least : std::min(least, more.least);
    greatest = std::max(greatest, more.greatest);
    count += more.count;
    sum += more.sum;
    planned += more.planned;
    bytes += more.bytes;
  }
};

/// Part of a step.
struct Slice {
  Time begin = 0, end = 0;                            // picoseconds since the run's start
  std::map<std::pair<int32_t, int32_t>, Tally> links; // (from, to)
  std::map<int32_t, Tally> ranks;                     // by rank; with shards by process: rank * shards + shard
};

inline constexpr int kSlices = 8;

/// How long before a step is needed its variant is decided, if steps last `step`: late, so that everything is known by
/// then, but early enough to decide and to tell all processes.
inline constexpr Time horizonOf(Time step) {
  constexpr Time kLeast = 20'000'000'000; // 20 ms
  return std::max(kLeast, step / 100);
}

/// The measurements of a step that were known when the next was decided.
struct StepReport {
  size_t candidate = 0;      // the candidate that ran
  std::vector<Slice> slices; // kSlices slices without gaps
  Time lastTook = 0;         // duration of the last step that has ended on all ranks; 0: none
  size_t lastCandidate = 0;  // the candidate of that step
  bool lastSwapped = false;  // whether that step was the first after a swap
};

} // namespace pipec::adapt
