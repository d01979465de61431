// Measurements of a run that have not been reported yet, from all ranks.
#pragma once

#include "runtime/adapt/StepReport.h"

namespace pipec::adapt {

/// Transfers of a link, or operations of a rank, that ended close together.
struct Sample {
  Time end = 0; // of the last of them, picoseconds since the run's start
  Tally tally;
  int32_t from = 0, to = -1; // a link; -1: operations of rank `from`, or of that process (Slice::ranks)
};

/// Whether a sample is possible in a run of `ranks` ranks.
bool isPossible(const Sample &sample, int32_t ranks, int32_t shards = 1);

/// Duration of an operation's own work on a healthy shard. `operation`: its index.
inline Time healthyTime(const plan::Own &own, size_t operation) {
  const plan::OwnCost &cost = own.operations[operation];
  return Time(__int128(cost.before + cost.between + cost.after) * plan::Own::kWhole / own.factor);
}

class Measured {
public:
  void add(Sample sample) { samples.push_back(std::move(sample)); }

  /// The measurements that ended by `now`, in slices since the last report. Later ones wait for the next report.
  std::vector<Slice> report(Time now);

private:
  std::vector<Sample> samples;
  Time reported = 0;
};

} // namespace pipec::adapt
