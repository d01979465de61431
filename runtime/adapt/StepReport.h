// What was measured in a step.
#pragma once

#include "runtime/plan/Plan.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace pipec::adapt {

using plan::Time;

/// Of the transfers of a directed link, or of the operations of a rank or of one of its shards, in a slice of a step.
struct Tally {
  int64_t count = 0;
  Time sum = 0, least = 0, greatest = 0; // of what each took: of a transfer from when both ends were ready to arrival
  Time planned = 0;                      // sum; of a transfer: for how long it was on its way, the wire free
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
  Time begin = 0, end = 0;                            // from the run's start
  std::map<std::pair<int32_t, int32_t>, Tally> links; // (from, to)
  std::map<int32_t, Tally> ranks;                     // their processes, where they have shards: rank * shards + shard
};

inline constexpr int kSlices = 8;

/// A step is decided so long before it is needed, where steps last this long: late, so that all is known by then, but
/// early enough to decide and to tell everybody.
inline constexpr Time horizonOf(Time step) {
  constexpr Time kLeast = 20'000'000'000; // 20 ms
  return std::max(kLeast, step / 100);
}

/// A step as far as it had been measured when the next was decided.
struct StepReport {
  size_t candidate = 0;      // that ran
  std::vector<Slice> slices; // kSlices, one behind the other
  Time lastTook = 0;         // the step before it, once it had ended; 0: none
  size_t lastCandidate = 0;  // that ran then
  bool lastSwapped = false;  // and it was the first behind a swap
};

} // namespace pipec::adapt
