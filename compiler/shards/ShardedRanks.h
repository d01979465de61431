// Shards of a spec's ranks, with their portions: what orders, plans and bounds are made of.
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
  /// Gives the units of each rank, by the spec's balance; as groupsOf().
  ShardedRanks(const spec::Spec &spec, const schedule::Problem &problem, const std::vector<int64_t> &cut,
               const std::vector<int64_t> &inFlight = {});
  /// With the units that a plan's rows give them.
  ShardedRanks(const spec::Spec &spec, const schedule::Problem &problem, const std::vector<int64_t> &cut,
               const std::vector<plan::Portion> &rows);

  /// The times of a stage's passes, each from when all shards have come to when the last is done; and of each size what
  /// the shard that holds most of it holds.
  plan::Figures figuresOf(size_t stage) const;
  /// Of the shard of a rank that holds most.
  schedule::Bytes staticBytesOf(size_t rank) const;
  /// Gives each rank the sizes of one of its shards, which holds most with one microbatch in flight at each stage.
  /// Sizes of a problem are each of another shard, so that no process may hold as much.
  void useFullestShards(schedule::Problem &problem) const;

  /// What is each process's own.
  Shards shards() const;

  /// The same with pipec::leastOf().
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
    size_t rank = 0, index = 0; // of a stage, among its rank's
    int64_t first = 0;          // layer of the model
  };
  void place(const schedule::Problem &problem, const std::vector<int64_t> &cut);
  portions::Timing timingOf(size_t stage, portions::Pass pass) const;
  ShardedStage shardedStage(size_t stage) const;
  void addPortions(size_t stage, ShardedStage &made) const;
  schedule::Time leastOf(size_t stage, portions::Pass pass, const Least &by, bool given) const;

  const spec::Spec &spec;
  portions::Balance balance;
  std::vector<portions::Group> all;      // by rank
  std::vector<portions::Portions> given; // likewise
  std::vector<Place> places;             // by stage
};

/// Gives the stages of a problem, which has its placement and backward, the figures of their shards, in place of the
/// spec's.
void useFigures(const spec::Spec &spec, const ShardedRanks &ranks, schedule::Problem &problem);
/// Gives a stage of a problem the times of these figures, R where the spec recomputes the stage.
void useTimes(const spec::Spec &spec, const plan::Figures &figures, size_t s, schedule::Problem &problem);

} // namespace pipec
