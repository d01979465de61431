// What the network and the ranks are like, from what was measured.
#pragma once

#include "runtime/adapt/StepReport.h"
#include "runtime/simulate/Scenario.h"

namespace pipec::adapt {

/// Of a directed link, from its last measured slice.
struct LinkEstimate {
  Time latency = 0;
  int64_t bandwidth = 0; // bytes a second; 0: unlimited
  int64_t samples = 0;
  Time spread = 0; // between the longest and the shortest transfer of the slice
  Time since = 0;  // when that slice began
};

/// Of a rank, from the last step: what its operations take, in percent of the plan's costs; of a shard, of what its
/// own times would be on a healthy one.
struct RankEstimate {
  int64_t percent = 100;
  int64_t samples = 0;
  Time since = 0; // when that step began
};

/// What a link was like while these transfers went over it.
simulate::Scenario::Stretch stretchOf(const Tally &tally, Time at);

class Estimator {
public:
  /// `shards`: of each rank of the plan.
  explicit Estimator(int32_t shards = 1) : shards(shards) {}

  void take(const StepReport &report);

  /// What held during a step, slice by slice from 0 on, and so again and again. Links of which nothing was ever
  /// measured are left as the plan has them.
  simulate::Scenario during(const StepReport &report) const;
  /// What held in the last slices of it, so many.
  simulate::Scenario lately(const StepReport &report, int slices) const;

  const std::map<std::pair<int32_t, int32_t>, LinkEstimate> &links() const { return known; }
  /// By process, where ranks have shards (Slice::ranks).
  const std::map<int32_t, RankEstimate> &ranks() const { return knownRanks; }

private:
  int32_t shards;
  std::map<std::pair<int32_t, int32_t>, LinkEstimate> known;
  std::map<int32_t, RankEstimate> knownRanks;
};

} // namespace pipec::adapt
