// Tensor parallelism with slow shards: what a rank's processes share. A rank is a *group* of shards, each with a factor
// by which it is slower than it should be; its layers have *splits*, parts made of equal units that any shard may
// compute, each ended by a sum over the shards (Megatron-LM's f and g). A *portion* says which units a shard owns,
// works and keeps; every policy (ZERO-resizing, SEMI-migration, and what needs neither) is these three.
// Times are picoseconds, sizes bytes, both within runtime/plan/Limits.h; factors are millionths, 1'000'000 for a shard
// that is as fast as the spec says. Nothing here checks input; whoever reads a spec does. Within limits::kTime,
// limits::kBytes, kMostFactor and kMostUnits nothing overflows; a time above kMostTime is that.
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
inline constexpr int64_t kMostUnits = int64_t(1) << 24; // of a split
inline constexpr Time kMostTime = 4 * limits::kTime;    // what a sum of times stays at

/// What a stage does for one microbatch, and once a step.
enum class Pass : uint8_t { Forward, BackwardInput, BackwardWeight, Backward, Recompute, Optimizer };
inline constexpr size_t kPasses = 6;

constexpr Figure figureOf(Pass pass) {
  constexpr Figure kOf[] = {Figure::Forward,  Figure::BackwardInput, Figure::BackwardWeight,
                            Figure::Backward, Figure::Recompute,     Figure::Optimizer};
  return kOf[size_t(pass)];
}

/// Figures of one layer, or of all units of a split, on a shard of factor 1.
struct Work : plan::Figures {
  /// A backward that is not given takes what the two halves take together; a recompute that is not given takes what the
  /// forward takes.
  Time of(Pass pass) const {
    const Figures &own = *this;
    if (pass == Pass::Backward && !has(Figure::Backward))
      return own[Figure::BackwardInput] + own[Figure::BackwardWeight];
    return own[pass == Pass::Recompute && !has(Figure::Recompute) ? Figure::Forward : figureOf(pass)];
  }
  /// What goes to the owner of a unit that is worked elsewhere, and back, of all units.
  Bytes sentGradients() const { return (*this)[Figure::Gradients]; }
  Bytes sentWeights() const { return (*this)[(*this)[Figure::Weights] == 0 ? Figure::Gradients : Figure::Weights]; }
};

/// A part of a layer made of equal units. Units are a matrix's columns with the rows of the next one, or heads: a
/// unit that moves takes both along, and its part enters the sum that is there anyway.
struct Split : Work {
  int64_t units = 1;
  Bytes sum = 0; // summed over the shards when all units are done, forward and backward
  bool operator==(const Split &) const = default;
};

struct Layer {
  Work own; // what every shard does
  std::vector<Split> splits;
  bool operator==(const Layer &) const = default;
};

/// So many equal layers, one behind the other. They share one portion a split.
struct LayerRun {
  Layer layer;
  int64_t count = 1;
  bool operator==(const LayerRun &) const = default;
};

struct Stage {
  std::vector<LayerRun> runs;
  bool recomputed = false; // R stands before each backward, whose times do not have it
  /// How often the rank holds the stage's activations and contexts at once, and its recompute inputs: what memory is
  /// checked with.
  int64_t inFlight = 0, inputsInFlight = 0;
  int64_t inFlightOf(Figure size) const { return size == Figure::RecomputeInput ? inputsInFlight : inFlight; }
  bool operator==(const Stage &) const = default;
};

/// A rank: its shards and its stages.
struct Group {
  std::vector<Factor> factors; // of each shard, which says how many there are
  Link link;                   // of a ring through them
  bool sequence = false;       // a gather before each split and a reduce-scatter behind it, in place of an all-reduce
  int64_t microbatches = 1;
  BackwardMode backward = BackwardMode::Fused;
  std::vector<Stage> stages;
  Bytes memoryLimit = 0;          // of each process; 0: none
  std::vector<Bytes> staticBytes; // of each shard, beside its portions'; empty: 0
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
/// Ascending, none empty, none next to another.
using Ranges = std::vector<Range>;

/// A shard's units of a split. Each unit of a split is owned by one shard and worked by one; `kept` of those that a
/// shard works, whichever they are, are not left out.
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
