// The cost of a plan of widths, by which all planners are judged. The formula of a ring is that of schedule::ringOf,
// and wire time that of schedule::wireTime; each is rounded once, half up. Source: DeepPool, arXiv 2112.10065, where
// all-reduces have neither a ring's factor nor latencies.
//
// A step consists of each layer's forward and backward at the local batch; between two stages a reshard forward and one
// backward; and one all-reduce per stage of all gradients of its layers, none at width 1 and none without gradients.
#pragma once

#include "compiler/burst/Samples.h"

namespace pipec::burst {

/// The sum, at most kMostTime.
inline Time plus(Time one, Time other) { return schedule::later(one, other); }
inline Cost plus(const Cost &one, const Cost &other) {
  return {plus(one.time, other.time), plus(one.device, other.device)};
}
/// The cost of `ranks` ranks for `time`.
Cost costOn(int32_t ranks, Time time);

/// The time of an all-reduce of `gradients` bytes on the first `width` ranks, 0 for 0 bytes; and the same without
/// latencies.
Time allReduceTime(const Problem &problem, Bytes gradients, int32_t width);
Time allReduceWireTime(const Problem &problem, Bytes gradients, int32_t width);

/// The bytes of a reshard after a layer, for `moved` samples into or out of a rank: the samples' bytes plus the fixed
/// bytes.
Bytes reshardBytes(const Layer &layer, int64_t moved);
/// The time of a reshard between two widths after a layer, forward or backward: a latency plus the wire time of those
/// bytes.
Time reshardTime(const Problem &problem, const Layer &layer, int32_t from, int32_t to);

/// The cost of a step, with a width for each layer, none above ranks or batch.
Cost costOf(const Problem &problem, const Widths &widths);

/// A plan of given widths: one width for all layers, or one per layer; without layers the plan is empty.
Plan planOf(const Problem &problem, const Widths &widths);
/// The plan with all layers on the largest width that a layer may have.
Plan dataParallel(const Problem &problem);

/// The same costs in tables, by layer and by index into a list of widths. Planners read these tables.
class Costs {
public:
  /// Tables for all widths that a layer may have, or for the given widths, ascending. The problem must outlive the
  /// object.
  explicit Costs(const Problem &problem) : Costs(problem, widthsOf(problem)) {}
  Costs(const Problem &problem, Widths widths);

  const Problem &problem() const { return of; }
  size_t layers() const { return of.layers.size(); }
  const Widths &widths() const { return choices; }
  /// Forward and backward of a layer.
  Time compute(size_t layer, size_t width) const;
  /// The cost of layers first to last as one stage: compute and all-reduce.
  Cost stage(size_t first, size_t last, size_t width) const;
  /// The cost of the reshards after a layer between two widths, forward and backward together.
  Cost reshard(size_t layer, size_t from, size_t to) const;
  /// The cost of a plan, given as an index into widths() for each layer.
  Cost cost(const std::vector<size_t> &plan) const;
  Widths widthsOfPlan(const std::vector<size_t> &plan) const;

private:
  const Problem &of;
  Widths choices;
  std::vector<__int128> computed, gradients; // sums over all layers below; computed: by layer and width
  std::vector<int64_t> moved;                // samples, by two widths
};

} // namespace pipec::burst
