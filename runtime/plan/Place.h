// The place of a process: its rank in the pipeline, and its number among the rank's replicas or shards. Programs name
// ranks; processes exchange data. A replica (shard) of a rank sends to the replica (shard) with the same number of
// another rank.
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace pipec::plan {

/// How many processes each rank has.
struct Grid {
  int32_t degree = 1; // replicas
  int32_t shards = 1; // of each replica
  int32_t each() const { return degree * shards; }
  bool operator==(const Grid &) const = default;
};

struct Place {
  int32_t rank = 0;
  int32_t replica = 0;
  int32_t degree = 1; // replicas of each rank
  int32_t shard = 0;
  int32_t shards = 1; // of each replica

  int32_t world() const { return worldOf(rank); }
  /// The process on another rank that this one exchanges data with.
  int32_t worldOf(int32_t other) const { return (other * degree + replica) * shards + shard; }
  Grid grid() const { return {degree, shards}; }
};
inline Grid gridOf(const Plan &plan) { return {std::max(plan.degree(), 1), plan.shards()}; }

/// The place of a process, by its world rank.
inline Place placeOf(int32_t world, const Grid &grid) {
  return {world / grid.each(), world / grid.shards % grid.degree, grid.degree, world % grid.shards, grid.shards};
}
inline Place placeOf(int32_t world, const Plan &plan) { return placeOf(world, gridOf(plan)); }

/// "rank 1"; where there are replicas "rank 1 replica 0", where there are shards "rank 1 shard 0".
std::string nameOf(const Place &place);
inline std::string processName(int32_t world, const Grid &grid) { return nameOf(placeOf(world, grid)); }

} // namespace pipec::plan
