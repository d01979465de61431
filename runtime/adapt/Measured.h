// What of a run has been measured and not yet been reported, from whichever rank it comes.
#pragma once

#include "runtime/adapt/StepReport.h"

namespace pipec::adapt {

/// Transfers of a link, or operations of a rank, that ended close together.
struct Sample {
  Time end = 0; // of the last of them, from the run's start
  Tally tally;
  int32_t from = 0, to = -1; // a link; -1: operations of rank `from`, or of that process (Slice::ranks)
};

/// Whether it can have been measured, in a run of so many ranks.
bool isPossible(const Sample &sample, int32_t ranks, int32_t shards = 1);

/// What an operation, by its index, takes of a healthy shard's own time.
inline Time healthyTime(const plan::Own &own, size_t operation) {
  const plan::OwnCost &cost = own.operations[operation];
  return Time(__int128(cost.before + cost.between + cost.after) * plan::Own::kWhole / own.factor);
}

class Measured {
public:
  void add(Sample sample) { samples.push_back(std::move(sample)); }

  /// What has ended by `now`, in slices since the last report. What ends later waits for the next.
  std::vector<Slice> report(Time now);

private:
  std::vector<Sample> samples;
  Time reported = 0;
};

} // namespace pipec::adapt
