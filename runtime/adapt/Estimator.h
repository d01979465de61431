// Estimates the network and the speed of ranks from measurements.
#pragma once

#include "runtime/adapt/StepReport.h"
#include "runtime/simulate/Scenario.h"

namespace pipec::adapt {

/// A directed link, by its last measured slice.
struct LinkEstimate {
  Time latency = 0;
  int64_t bandwidth = 0; // bytes a second; 0: unlimited
  int64_t samples = 0;
  Time spread = 0; // difference between the longest and the shortest transfer of the slice
  Time since = 0;  // when that slice began
};

/// A rank, by the last step: duration of its operations in percent of the plan's costs; a shard: in percent of its own
/// times on a healthy device.
struct RankEstimate {
  int64_t percent = 100;
  int64_t samples = 0;
  Time since = 0; // when that step began
};

/// Bandwidth and latency of a link during these transfers.
simulate::Scenario::Stretch stretchOf(const Tally &tally, Time at);

class Estimator {
public:
  /// `shards`: shards of each rank of the plan.
  explicit Estimator(int32_t shards = 1) : shards(shards) {}

  void take(const StepReport &report);

  /// The network and ranks during a step, slice by slice from 0 on, repeated for ever. Links that were never measured
  /// are left as the plan has them.
  simulate::Scenario during(const StepReport &report) const;
  /// The same for the last `slices` slices of the step.
  simulate::Scenario lately(const StepReport &report, int slices) const;

  const std::map<std::pair<int32_t, int32_t>, LinkEstimate> &links() const { return known; }
  /// By rank; with shards by process (Slice::ranks).
  const std::map<int32_t, RankEstimate> &ranks() const { return knownRanks; }

private:
  int32_t shards;
  std::map<std::pair<int32_t, int32_t>, LinkEstimate> known;
  std::map<int32_t, RankEstimate> knownRanks;
};

} // namespace pipec::adapt
