// What passes take on the shards of a group whose units are given: the judge of all choices.
//
// A term is factor x time x kept / (1'000'000 x units), rounded once, half up; a layer's own work is factor x time /
// 1'000'000, rounded likewise. A forward (R, the recompute, likewise) does, layer by layer, its own work, then its
// splits in order, each ended by a sum. A backward does the layers from the last to the first: the splits from the
// last, then the layer's own work. B has the times of the input's gradients; a fused backward does a split's W before
// its sum. W has no sum. Sums are all-reduces of a ring; with `sequence` each split has an all-gather before it and a
// reduce-scatter behind it. The optimizer has no sum, unless a unit of the stage is worked by another than its owner:
// then an exchange of gradients comes first and one of weights last, each taking a latency, and the time on the wire of
// the most bytes that go in or out of one shard. With one shard sums take nothing.
#pragma once

#include "compiler/portions/Model.h"

namespace pipec::portions {

/// A pass on each shard: its own time until its first sum, what lies between (all sums, and between two of them the
/// longest shard's time), and its own time behind the last. Without a sum all of it is `before`.
struct Timing {
  std::vector<Time> before, after; // of each shard
  Time cost = 0;
  bool meets = false;    // it has a sum, or an exchange
  std::vector<Time> own; // all that a shard computes: `before`, `after`, and its own time between sums
  bool operator==(const Timing &) const = default;

  /// From a start of all shards at once to the last one's end.
  Time whole() const;
};

/// What a pass takes; O(runs x splits x shards), whatever the layers' number.
Timing timingOf(const Group &group, const Stage &stage, const StagePortions &portions, Pass pass);

/// A term: what `part` of `units` takes on a shard. Within the limits of Model.h; at most kMostTime.
Time termOf(Factor factor, Time time, int64_t part, int64_t units);
inline Time ownOf(Factor factor, Time time) { return termOf(factor, time, 1, 1); }
/// What every time is added with: at most kMostTime.
inline Time plus(Time one, Time other) { return std::min(one + other, kMostTime); }
/// So many times; at most kMostTime.
inline Time times(int64_t count, Time time) { return Time(std::min<__int128>(__int128(count) * time, kMostTime)); }

/// What the shards wait for before a split and behind it.
struct Sums {
  bool isBefore = false; // there is one before
  Time before = 0, behind = 0;
};
Sums sumsOf(const Group &group, const Split &split);
/// One of the two exchanges of an optimizer.
Time exchangeTime(const Link &link, Bytes mostBytes);

/// The most bytes that go in or out of one shard for units worked elsewhere than they are owned; of all layers.
struct Moved {
  Bytes gradients = 0, weights = 0; // in one shard or out of it
  Bytes all = 0;                    // of both, sent by all shards
  bool any = false;
};
Moved movedOf(const Group &group, const Stage &stage, const StagePortions &portions);

/// What the group's step takes if nothing overlaps: of each stage, all passes of its microbatches, then the optimizer.
/// This is what portions are chosen by.
Time stepOf(const Group &group, const Portions &portions);
Time stepOf(const Group &group, const Stage &stage, const StagePortions &portions);
/// What each shard computes in it, without sums and waiting.
std::vector<Time> ownOfStep(const Group &group, const Portions &portions);

} // namespace pipec::portions
