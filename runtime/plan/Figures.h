// The figures of a stage, of a layer and of a split of a layer: what each of them takes (picoseconds) and holds
// (bytes). The table has a row for each figure. A row says how a spec names the figure, where a spec may give it, and
// how a stage's figure follows from its layers. Constants alone: every room may include this header.
#pragma once

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pipec::plan {

/// In the order in which a spec's reference has them.
enum class Figure : uint8_t {
  Forward,
  BackwardInput,
  BackwardWeight,
  Backward,
  Recompute,
  Overlapped,
  Boundary,
  BoundaryGradient,
  Activation,
  WeightContext,
  BackwardContext,
  RecomputeInput,
  Weights,
  Gradients,
  OptimizerState,
  Static,
  Optimizer,
};
inline constexpr size_t kFigures = size_t(Figure::Optimizer) + 1;

enum class FigureUnit : uint8_t { Time, Bytes }; // picoseconds; bytes

/// How the figure of a stage follows from those of its layers.
enum class FromLayers : uint8_t {
  Nothing, // layers do not have it
  Sum,     // the stage's is the sum over its layers
  Last,    // the stage's is that of its last layer
};

/// Which units of a split a shard holds a figure's bytes of.
enum class HeldUnits : uint8_t {
  None,   // of none
  Kept,   // of units that the shard keeps
  Either, // of units that the shard owns or works
  Owned,  // of units that the shard owns
};

inline constexpr std::string_view kInputOfPart =
    "The part of it that a recomputed stage keeps; where no layer gives any, the stage keeps the boundary that it "
    "receives";

/// Whose costs and sizes a map of a spec gives. Values add up to sets.
enum FigureOwner : uint8_t { kOfStages = 1, kOfLayers = 2, kOfSplits = 4 };

struct FigureRow {
  Figure figure;
  std::string_view key; // of a spec: costs.KEY or tensors.KEY, layers[].KEY and layers[].splits[].KEY
  FigureUnit unit = FigureUnit::Time;
  uint8_t owners = kOfStages | kOfLayers | kOfSplits; // a set of FigureOwner: where the key stands
  FromLayers fromLayers = FromLayers::Sum;
  HeldUnits held = HeldUnits::None;
  bool isNeeded = false;              // must be given
  bool bySample = false;              // may be {fixed, per_sample}
  bool byLocalBatch = false;          // of a layer, may be {samples: {1: …}}
  bool byTensor = false;              // of a layer, may be a list of one for each tensor
  bool besideLayers = false;          // of a stage, may be given beside `layers`
  std::string_view help;              // what the key means: one sentence without full stop
  std::string_view ofLayer{};         // the same of a layer, where that is something else
  std::string_view ofSplit{};         // the same of a split, where that is something else
  std::string_view fallback{};        // what holds where the key is absent
  std::string_view fallbackOfLayer{}; // the same of layers and splits, where that is something else
};

inline constexpr std::array<FigureRow, kFigures> kFigureTable = {{
    {.figure = Figure::Forward,
     .key = "forward",
     .isNeeded = true,
     .bySample = true,
     .byLocalBatch = true,
     .help = "Forward"},
    {.figure = Figure::BackwardInput, .key = "backward_input", .bySample = true, .help = "Backward for the input"},
    {.figure = Figure::BackwardWeight, .key = "backward_weight", .bySample = true, .help = "Backward for the weights"},
    {.figure = Figure::Backward,
     .key = "backward",
     .bySample = true,
     .byLocalBatch = true,
     .help = "Fused backward, in place of backward_input and backward_weight or beside them"},
    {.figure = Figure::Recompute,
     .key = "recompute",
     .bySample = true,
     .help = "The forward again, where the stage is recomputed",
     .fallback = "forward"},
    {.figure = Figure::Overlapped,
     .key = "overlapped",
     .owners = kOfStages,
     .fromLayers = FromLayers::Nothing,
     .bySample = true,
     .besideLayers = true,
     .help = "The forward together with a whole backward on its rank, where the schedule runs the two at once "
             "(dualpipe, dualpipe-v, auto, OVERLAP_F_B in an order file): no less than the longer of the two, no "
             "more than one after the other",
     .fallback = "one after the other"},
    {.figure = Figure::Boundary,
     .key = "boundary",
     .unit = FigureUnit::Bytes,
     .owners = kOfStages | kOfLayers,
     .fromLayers = FromLayers::Last,
     .bySample = true,
     .besideLayers = true,
     .help = "What a stage sends on",
     .ofLayer = "What a stage that ends with this layer sends on",
     .fallback = "0B",
     .fallbackOfLayer = "tensors.boundary"},
    {.figure = Figure::BoundaryGradient,
     .key = "boundary_gradient",
     .unit = FigureUnit::Bytes,
     .owners = kOfStages | kOfLayers,
     .fromLayers = FromLayers::Last,
     .bySample = true,
     .besideLayers = true,
     .help = "The gradient that comes back of what a stage sends on: of those tensors that need one",
     .ofLayer = "The gradient that comes back to a stage that ends with this layer",
     .fallback = "boundary",
     .fallbackOfLayer = "tensors.boundary_gradient, or where that is not given the boundary"},
    {.figure = Figure::Activation,
     .key = "activation",
     .unit = FigureUnit::Bytes,
     .held = HeldUnits::Kept,
     .bySample = true,
     .help = "Bytes held from the start of F to the end of B",
     .fallback = "0B"},
    {.figure = Figure::WeightContext,
     .key = "weight_context",
     .unit = FigureUnit::Bytes,
     .held = HeldUnits::Kept,
     .bySample = true,
     .help = "Bytes held from the start of F to the end of W; with a fused backward to the end of that backward",
     .fallback = "0B"},
    {.figure = Figure::BackwardContext,
     .key = "backward_context",
     .unit = FigureUnit::Bytes,
     .held = HeldUnits::Kept,
     .bySample = true,
     .help = "Bytes that a split backward for the input makes, held to the end of W; a whole backward makes none",
     .fallback = "0B"},
    {.figure = Figure::RecomputeInput,
     .key = "recompute_input",
     .unit = FigureUnit::Bytes,
     .held = HeldUnits::Kept,
     .bySample = true,
     .help = "Where a stage is recomputed, bytes kept from the forward until it runs again, in place of activation "
             "and weight_context, of which they are a part then",
     .ofLayer = kInputOfPart,
     .ofSplit = kInputOfPart,
     .fallback = "the boundary that it receives; of stage 0, 0B",
     .fallbackOfLayer = "0B"},
    {.figure = Figure::Weights,
     .key = "weights",
     .unit = FigureUnit::Bytes,
     .owners = kOfLayers | kOfSplits,
     .held = HeldUnits::Either,
     .help = "Weights; added to the stage's static bytes",
     .ofSplit = "Weights; where a unit is owned or worked",
     .fallback = "0B"},
    {.figure = Figure::Gradients,
     .key = "gradients",
     .unit = FigureUnit::Bytes,
     .held = HeldUnits::Either,
     .byTensor = true,
     .help = "What data parallelism reduces, and the copies of a bidirectional placement; part of static",
     .ofLayer = "What data parallelism reduces, in all or by tensor, in the order of the forward; added to the stage's "
                "static bytes",
     .ofSplit = "Gradients; where a unit is owned or worked",
     .fallback = "0B"},
    {.figure = Figure::OptimizerState,
     .key = "optimizer_state",
     .unit = FigureUnit::Bytes,
     .held = HeldUnits::Owned,
     .help = "What of static replicas may share out among them",
     .ofLayer = "What the optimizer keeps; added to the stage's static bytes",
     .ofSplit = "What the optimizer keeps; where a unit is owned",
     .fallback = "0B"},
    {.figure = Figure::Static,
     .key = "static",
     .unit = FigureUnit::Bytes,
     .owners = kOfStages,
     .fromLayers = FromLayers::Nothing,
     .besideLayers = true,
     .help = "Weights, gradients, optimizer state: always there; with layers, what a stage holds beside the weights, "
             "gradients and optimizer state of its layers",
     .fallback = "0B"},
    {.figure = Figure::Optimizer,
     .key = "optimizer",
     .besideLayers = true,
     .help = "Optimizer, once a stage and step; with layers, what a stage takes beside its layers",
     .ofLayer = "Its part of the stage's optimizer step, once a step",
     .ofSplit = "Its part of the stage's optimizer step, once a step; where a unit is owned",
     .fallback = "0ms"},
}};

/// What a row's key means in the maps of an owner; empty: the key does not stand there.
constexpr std::string_view helpOf(const FigureRow &row, FigureOwner owner) {
  if ((row.owners & owner) == 0)
    return {};
  const std::string_view own = owner == kOfLayers ? row.ofLayer : owner == kOfSplits ? row.ofSplit : row.help;
  return own.empty() ? row.help : own;
}

constexpr const FigureRow &rowOf(Figure figure) { return kFigureTable[size_t(figure)]; }
static_assert([] {
  for (size_t i = 0; i < kFigures; ++i)
    if (size_t(kFigureTable[i].figure) != i)
      return false;
  return true;
}());

/// The most that a spec or a sum over layers may give.
constexpr int64_t mostOf(const FigureRow &row) { return row.unit == FigureUnit::Time ? limits::kTime : limits::kBytes; }

/// A value for each figure: 0 where none is given.
class Figures {
public:
  constexpr int64_t operator[](Figure figure) const { return values[size_t(figure)]; }
  bool has(Figure figure) const { return given[size_t(figure)]; }
  void set(Figure figure, int64_t value) {
    values[size_t(figure)] = value;
    given.set(size_t(figure));
  }
  /// Figure by figure. A sum over a limit becomes one more than the limit, which is enough to refuse it.
  Figures &operator+=(const Figures &other) {
    for (size_t i = 0; i < kFigures; ++i)
      values[i] = std::min(values[i] + other.values[i], mostOf(kFigureTable[i]) + 1);
    given |= other.given;
    return *this;
  }
  bool operator==(const Figures &) const = default;

private:
  std::array<int64_t, kFigures> values{};
  std::bitset<kFigures> given;
};

} // namespace pipec::plan
