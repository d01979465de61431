// The times of passes on the shards of a group with given portions. Every choice of portions is judged by these times.
//
// A term is factor x time x kept / (1'000'000 x units), rounded once, half up. A layer's own work is factor x time /
// 1'000'000, rounded half up too. A forward, or a recompute, does each layer's own work and then the layer's splits in
// order, each ended by a sum. A backward visits the layers from last to first: the splits from the last, then the
// layer's own work. B has the times of the input's gradients; a fused backward does a split's W before its sum. W has
// no sum. Sums are all-reduces over a ring; with `sequence`, each split has an all-gather before it and a
// reduce-scatter after it.
// The optimizer has no sum. If a unit of the stage is worked by another shard than its owner, an exchange of gradients
// comes first and an exchange of weights last. Each exchange takes one latency plus the wire time of the most bytes
// that come into or leave one shard. With one shard, sums take no time.
#pragma once

#include "compiler/portions/Model.h"

namespace pipec::portions {

/// The times of a pass, by shard: its own time before its first sum and after its last sum. `cost` is the time in
/// between, for all shards: all sums, and between two sums the time of the slowest shard. Without a sum everything is
/// in `before`.
struct Timing {
  std::vector<Time> before, after; // by shard
  Time cost = 0;
  bool meets = false;    // whether there is a sum or an exchange
  std::vector<Time> own; // by shard: all its own work, between sums too
  bool operator==(const Timing &) const = default;

  /// From the common start of all shards to the end of the last shard.
  Time whole() const;
};

/// The times of a pass. O(runs x splits x shards), for any number of layers.
Timing timingOf(const Group &group, const Stage &stage, const StagePortions &portions, Pass pass);

/// The time of `part` of `units` units on a shard. Needs the limits of Model.h; at most kMostTime.
Time termOf(Factor factor, Time time, int64_t part, int64_t units);
inline Time ownOf(Factor factor, Time time) { return termOf(factor, time, 1, 1); }
/// The sum of two times, at most kMostTime.
inline Time plus(Time one, Time other) { return std::min(one + other, kMostTime); }
/// count × time, at most kMostTime.
inline Time times(int64_t count, Time time) { return Time(std::min<__int128>(__int128(count) * time, kMostTime)); }

/// The collectives before and after a split, in picoseconds.
struct Sums {
  bool isBefore = false; // whether there is one before
  Time before = 0, behind = 0;
};
Sums sumsOf(const Group &group, const Split &split);
/// The time of one of the optimizer's two exchanges.
Time exchangeTime(const Link &link, Bytes mostBytes);

/// The most bytes that come into or leave one shard for units that are worked elsewhere, over all layers.
struct Moved {
  Bytes gradients = 0, weights = 0; // of the busiest shard, in one direction
  Bytes all = 0;                    // gradients and weights, summed over all shards
  bool any = false;
};
Moved movedOf(const Group &group, const Stage &stage, const StagePortions &portions);

/// The time of the group's step if nothing overlaps: for each stage, all passes of its microbatches, then the
/// optimizer. Portions are chosen to minimize this time.
Time stepOf(const Group &group, const Portions &portions);
Time stepOf(const Group &group, const Stage &stage, const StagePortions &portions);
/// By shard: its own work in that step, without sums and waiting.
std::vector<Time> ownOfStep(const Group &group, const Portions &portions);

} // namespace pipec::portions
