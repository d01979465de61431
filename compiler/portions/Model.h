// Tensor parallelism with slow shards. A rank is a *group* of processes, its shards. Each shard has a factor by which
// it is slower than it should be. Layers have *splits*: parts made of equal units that any shard may compute, each
// ended by a sum over the shards (Megatron-LM's f and g). A *portion* says which units of a split a shard owns, works
// and keeps. Every policy is expressed by portions (ZERO-resizing, SEMI-migration and the others).
// Times are picoseconds and sizes bytes, both within runtime/plan/Limits.h. Factors are millionths: 1'000'000 is a
// shard as fast as the spec says. Nothing here checks input; the reader of the spec does. Within limits::kTime,
// limits::kBytes, kMostFactor and kMostUnits nothing overflows; a time above kMostTime becomes kMostTime.
#pragma once

#include "compiler/schedule/model/Problem.h"
#include "runtime/plan/Figures.h"
#include "runtime/plan/Limits.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace pipec::portions {

using plan::Figure;
using schedule::BackwardMode;
using schedule::Bytes;
using schedule::Link;
using schedule::Time;
using Factor = int64_t;

inline constexpr Factor kNoSlower = 1'000'000;          // millionths in 1
inline constexpr Factor kMostFactor = kNoSlower << 20;  // about 2^40
inline constexpr int64_t kMostUnits = int64_t(1) << 24; // units of a split, at most
inline constexpr Time kMostTime = 4 * limits::kTime;    // sums of times saturate here

/// The work of a stage, for one microbatch or (Optimizer) once per step.
enum class Pass : uint8_t { Forward, BackwardInput, BackwardWeight, Backward, Recompute, Optimizer };
inline constexpr size_t kPasses = 6;

constexpr Figure figureOf(Pass pass) {
  constexpr Figure kOf[] = {Figure::Forward,  Figure::BackwardInput, Figure::BackwardWeight,
                            Figure::Backward, Figure::Recompute,     Figure::Optimizer};
  return kOf[size_t(pass)];
}

/// Figures of one layer, or of all units of a split, on a shard of factor 1.
struct Work : plan::Figures {
  /// The time of a pass, in picoseconds. A Backward that is not given takes as long as its two halves together. A
  /// Recompute that is not given takes as long as the forward.
  Time of(Pass pass) const {
    const Figures &own = *this;
    if (pass == Pass::Backward && !has(Figure::Backward))
      return own[Figure::BackwardInput] + own[Figure::BackwardWeight];
    return own[pass == Pass::Recompute && !has(Figure::Recompute) ? Figure::Forward : figureOf(pass)];
  }
  /// The bytes that all units exchange if they are worked elsewhere: gradients to the owner, weights back from the
  /// owner.
  Bytes sentGradients() const { return (*this)[Figure::Gradients]; }
  Bytes sentWeights() const { return (*this)[(*this)[Figure::Weights] == 0 ? Figure::Gradients : Figure::Weights]; }
};

/// A part of a layer made of equal units. A unit is a column of a matrix with the matching row of the next matrix, or a
/// head. A unit that moves takes both along, and its result enters the sum that exists anyway.
struct Split : Work {
  int64_t units = 1;
  Bytes sum = 0; // bytes that are summed over the shards after the split, in the forward and in the backward
  bool operator==(const Split &) const = default;
};

struct Layer {
  Work own; // work that every shard does completely
  std::vector<Split> splits;
  bool operator==(const Layer &) const = default;
};

/// `count` equal layers, one after the other. They share one portion for each split.
struct LayerRun {
  Layer layer;
  int64_t count = 1;
  bool operator==(const LayerRun &) const = default;
};

struct Stage {
  std::vector<LayerRun> runs;
  bool recomputed = false; // R runs before each backward; the backward's times do not include R
  /// How many microbatches hold memory on the stage at once: activations and contexts, and recompute inputs. Memory is
  /// checked with these numbers.
  int64_t inFlight = 0, inputsInFlight = 0;
  int64_t inFlightOf(Figure size) const { return size == Figure::RecomputeInput ? inputsInFlight : inFlight; }
  bool operator==(const Stage &) const = default;
};

/// A rank: its shards and its stages.
struct Group {
  std::vector<Factor> factors; // by shard; their number is the number of shards
  Link link;                   // each link of the ring through the shards
  bool sequence = false;       // an all-gather before each split and a reduce-scatter after it, not an all-reduce
  int64_t microbatches = 1;
  BackwardMode backward = BackwardMode::Fused;
  std::vector<Stage> stages;
  Bytes memoryLimit = 0;          // of each process; 0: none
  std::vector<Bytes> staticBytes; // by shard, in addition to the portions; empty: 0
  Bytes workspace = 0;            // of each process

  int32_t shards() const { return int32_t(factors.size()); }
  Bytes otherStatic(int32_t shard) const { return staticBytes.empty() ? 0 : staticBytes[size_t(shard)]; }
  /// The passes that a microbatch takes on a stage.
  std::vector<Pass> passesOf(const Stage &stage) const;
};

/// Units first to first + count - 1.
struct Range {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
  bool operator==(const Range &) const = default;
};
/// Ascending; no range is empty, and no two ranges touch.
using Ranges = std::vector<Range>;

/// A shard's units of a split. Each unit of a split is owned by one shard and worked by one shard. Of the units that a
/// shard works, `kept` are computed and the rest is left out; which units these are does not matter here.
struct Portion {
  Ranges owned;  // weights and optimizer state
  Ranges worked; // computed here
  int64_t kept = 0;
  bool operator==(const Portion &) const = default;
};

using SplitPortions = std::vector<Portion>;                    // by shard
using StagePortions = std::vector<std::vector<SplitPortions>>; // by run of layers and split
using Portions = std::vector<StagePortions>;                   // by stage

} // namespace pipec::portions
