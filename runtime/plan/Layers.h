// The layers of the model that a stage holds, if the plan says how the model was cut. A run's stages may be cut anew
// between two steps; each layer keeps its number.
#pragma once

#include "runtime/plan/Plan.h"

#include <limits>
#include <numeric>

namespace pipec::plan {

/// Numbered over the whole model, from 0.
struct Layers {
  int32_t first = 0;
  int32_t count = 0; // 0: unknown
  bool operator==(const Layers &) const = default;
  bool has(int32_t layer) const { return layer >= first && layer - first < count; }
};

/// The number of layers of the first `stages` stages of a copy. A file may say more than any model has; such sums are
/// capped.
inline int32_t layersBefore(const Variant &variant, int32_t stages) {
  const int64_t sum = std::accumulate(variant.cut.begin(), variant.cut.begin() + stages, int64_t(0));
  return int32_t(std::min<int64_t>(sum, std::numeric_limits<int32_t>::max()));
}

inline Layers layersOf(const Variant &variant, int32_t stage) {
  if (variant.cut.empty())
    return {};
  const int32_t own = stage % variant.stagesOfCopy();
  return {layersBefore(variant, own), variant.cut[size_t(own)]};
}

/// The number of layers of the whole model; 0: unknown.
inline int32_t layersOf(const Variant &variant) { return layersBefore(variant, int32_t(variant.cut.size())); }

/// The ranks that hold a shared weight, ascending. If there are several, they sum its gradients.
inline std::vector<int32_t> ranksOf(const Variant &variant, const SharedWeight &weight) {
  std::vector<int32_t> ranks;
  for (const Program &program : variant.programs)
    if (std::any_of(weight.stages.begin(), weight.stages.end(), [&](int32_t stage) {
          return std::binary_search(program.stages.begin(), program.stages.end(), stage);
        }))
      ranks.push_back(program.rank);
  return ranks;
}

/// Whether an operation of a stage, or of some of its layers, is about a layer that holds the weight.
inline bool isAbout(const Variant &variant, const Operation &operation, const SharedWeight &weight) {
  if (operation.layers == 0)
    return std::binary_search(weight.stages.begin(), weight.stages.end(), operation.stage);
  const auto before = int32_t(std::count_if(variant.layers.begin(), variant.layers.end(),
                                            [&](const Layer &layer) { return layer.stage < operation.stage; }));
  const Layers about{before + operation.firstLayer, operation.layers};
  return std::any_of(weight.layers.begin(), weight.layers.end(), [&](int32_t layer) { return about.has(layer); });
}

} // namespace pipec::plan
