// The shards of a spec's ranks and their portions, from which orders, plans and bounds are made.
#pragma once

#include "compiler/portions/Timing.h"
#include "compiler/program/Shards.h"
#include "compiler/shards/LeastTimes.h"
#include "compiler/shards/SpecGroups.h"

namespace pipec {

/// Whether ranks of the spec have shards.
inline bool hasShards(const spec::Spec &spec) { return spec.tensorParallel.shards.value > 1; }

class ShardedRanks {
public:
  /// Distributes the units of each rank by the spec's balance. The arguments are as in groupsOf().
  ShardedRanks(const spec::Spec &spec, const schedule::Problem &problem, const std::vector<int64_t> &cut,
               const std::vector<int64_t> &inFlight = {});
  /// Uses the portions in the rows of a plan.
  ShardedRanks(const spec::Spec &spec, const schedule::Problem &problem, const std::vector<int64_t> &cut,
               const std::vector<plan::Portion> &rows);

  /// The figures of a stage: the time of each pass from the arrival of all shards to the end of the last; and each size
  /// on the shard that holds most of it.
  plan::Figures figuresOf(size_t stage) const;
  /// Static bytes of the fullest shard of a rank.
  schedule::Bytes staticBytesOf(size_t rank) const;
  /// Gives each rank the sizes of a single shard: the one that holds most with one microbatch in flight at each stage.
  /// Otherwise each size of a problem may come from another shard, and no process may hold the sum.
  void useFullestShards(schedule::Problem &problem) const;

  /// The data of single processes.
  Shards shards() const;

  /// The figures of a stage with the times of pipec::leastOf().
  plan::Figures leastOf(size_t stage, const Least &by, bool given) const;

  const std::vector<portions::Group> &groups() const { return all; }
  const portions::StagePortions &portionsAt(size_t stage) const {
    return given[places[stage].rank][places[stage].index];
  }
  const portions::Group &groupOf(size_t stage) const { return all[places[stage].rank]; }
  const portions::Stage &stageAt(size_t stage) const { return groupOf(stage).stages[places[stage].index]; }
  size_t stages() const { return places.size(); }

private:
  struct Place {
    size_t rank = 0, index = 0; // rank of a stage, and its index on the rank
    int64_t first = 0;          // its first layer in the model
  };
  void place(const schedule::Problem &problem, const std::vector<int64_t> &cut);
  portions::Timing timingOf(size_t stage, portions::Pass pass) const;
  ShardedStage shardedStage(size_t stage) const;
  void addPortions(size_t stage, ShardedStage &made) const;
  schedule::Time leastOf(size_t stage, portions::Pass pass, const Least &by, bool given) const;

  const spec::Spec &spec;
  portions::Balance balance;
  std::vector<portions::Group> all;      // by rank
  std::vector<portions::Portions> given; // by rank
  std::vector<Place> places;             // by stage
};

/// Gives the stages of a problem, which must have its placement and backward, the figures of their shards.
void useFigures(const spec::Spec &spec, const ShardedRanks &ranks, schedule::Problem &problem);
/// Gives a stage of a problem the times of these figures, including R if the spec recomputes the stage.
void useTimes(const spec::Spec &spec, const plan::Figures &figures, size_t s, schedule::Problem &problem);

} // namespace pipec
