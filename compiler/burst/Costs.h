// What a plan of widths takes: the judge of all planners. A formula of a ring is schedule::ringOf's, of the wire
// schedule::wireTime's; each is rounded once, half up. Source: DeepPool, arXiv 2112.10065, whose all-reduces have
// neither a ring's factor nor latencies.
//
// A step: each layer's forward and backward at the local batch; between two stages a reshard forward and one backward;
// one all-reduce a stage of all gradients of its layers, none at width 1 and none without gradients.
#pragma once

#include "compiler/burst/Samples.h"

namespace pipec::burst {

/// Adds within kMostTime.
inline Time plus(Time one, Time other) { return schedule::later(one, other); }
inline Cost plus(const Cost &one, const Cost &other) {
  return {plus(one.time, other.time), plus(one.device, other.device)};
}
/// So many ranks, so long.
Cost costOn(int32_t ranks, Time time);

/// The all-reduce of so many bytes on the first `width` ranks, 0 for none; and without latencies.
Time allReduceTime(const Problem &problem, Bytes gradients, int32_t width);
Time allReduceWireTime(const Problem &problem, Bytes gradients, int32_t width);

/// What a reshard behind a layer carries, of so many samples in or out of a rank: their bytes, with what is fixed.
Bytes reshardBytes(const Layer &layer, int64_t moved);
/// A reshard between two widths behind a layer, forward or backward: a latency and those bytes.
Time reshardTime(const Problem &problem, const Layer &layer, int32_t from, int32_t to);

/// What a step takes: a width a layer, none above ranks or batch.
Cost costOf(const Problem &problem, const Widths &widths);

/// A plan of given widths: one for all layers, or one a layer; of none the plan is empty.
Plan planOf(const Problem &problem, const Widths &widths);
/// All layers on as many ranks as a layer may have.
Plan dataParallel(const Problem &problem);

/// The same costs in tables, by layer and by index into some widths: what planners read.
class Costs {
public:
  /// Of all widths that a layer may have, or of those given, ascending. The problem must outlive it.
  explicit Costs(const Problem &problem) : Costs(problem, widthsOf(problem)) {}
  Costs(const Problem &problem, Widths widths);

  const Problem &problem() const { return of; }
  size_t layers() const { return of.layers.size(); }
  const Widths &widths() const { return choices; }
  /// Forward and backward of a layer.
  Time compute(size_t layer, size_t width) const;
  /// Layers first to last as one stage: compute and all-reduce.
  Cost stage(size_t first, size_t last, size_t width) const;
  /// Behind a layer, between two widths, forward and backward together.
  Cost reshard(size_t layer, size_t from, size_t to) const;
  /// Of an index a layer.
  Cost cost(const std::vector<size_t> &plan) const;
  Widths widthsOfPlan(const std::vector<size_t> &plan) const;

private:
  const Problem &of;
  Widths choices;
  std::vector<__int128> computed, gradients; // of all layers below; computed: by layer and width
  std::vector<int64_t> moved;                // samples, by two widths
};

} // namespace pipec::burst
