// The replicated layers of each stage, and their bytes in the stage's gradients and weights, which are laid end to end.
// Without replicas there are none.
#pragma once

#include "runtime/plan/Plan.h"

#include <utility>

namespace pipec::plan {

class StageLayers {
public:
  /// `variant` must keep rule P7 and outlive this object.
  explicit StageLayers(const Variant &variant)
      : rows(variant.layers), gradients(rows.size()), weights(rows.size()), exchanged(rows.size() + 1),
        sharded(rows.size() + 1) {
    if (rows.empty())
      return;
    first.resize(size_t(variant.stages) + 1);
    for (size_t row = 0; row != rows.size(); ++row) {
      first[size_t(rows[row].stage) + 1] = row + 1;
      exchanged[row + 1] = exchanged[row] + (rows[row].gradients > 0 ? 1 : 0);
      sharded[row + 1] = sharded[row] + (rows[row].sharded ? 1 : 0);
      if (row == 0 || rows[row].stage != rows[row - 1].stage)
        continue;
      gradients[row] = gradients[row - 1] + rows[row - 1].gradients;
      weights[row] = weights[row - 1] + rows[row - 1].weights;
    }
  }

  bool empty() const { return rows.empty(); }
  /// The number of layers of a stage. A stage without replicas counts as one layer.
  int32_t count(int32_t stage) const { return empty() ? 1 : int32_t(first[size_t(stage) + 1] - first[size_t(stage)]); }
  const Layer &at(int32_t stage, int32_t layer) const { return rows[rowOf(stage, layer)]; }

  /// Layers of a stage, from `first` up to `end`.
  struct Range {
    int32_t first = 0, end = 0;
    bool operator==(const Range &) const = default;
  };
  /// The layers that an operation is about.
  Range of(const Operation &o) const {
    return o.layers == 0 ? Range{0, count(o.stage)} : Range{o.firstLayer, o.firstLayer + o.layers};
  }
  /// The bytes [first, second) of layers in what a collective carries: the gradients or the weights of their stage.
  std::pair<Bytes, Bytes> bytesOf(int32_t stage, Range layers, Payload of) const {
    const size_t from = rowOf(stage, layers.first), last = rowOf(stage, layers.end - 1);
    return of == Payload::Weights ? std::pair(weights[from], weights[last] + rows[last].weights)
                                  : std::pair(gradients[from], gradients[last] + rows[last].gradients);
  }
  /// Whether all of the given layers with gradients are sharded, or, without `all`, none of the layers.
  bool areSharded(int32_t stage, Range layers, bool all) const {
    const size_t from = rowOf(stage, layers.first), end = rowOf(stage, layers.end);
    return sharded[end] - sharded[from] == (all ? exchanged[end] - exchanged[from] : 0);
  }
  /// The layer in which a byte of a stage's gradients lies.
  int32_t layerAt(int32_t stage, Bytes byte) const {
    const auto begin = gradients.begin() + ptrdiff_t(first[size_t(stage)]);
    const auto end = gradients.begin() + ptrdiff_t(first[size_t(stage) + 1]);
    return int32_t(std::upper_bound(begin, end, byte) - begin) - 1;
  }

private:
  size_t rowOf(int32_t stage, int32_t layer) const { return first[size_t(stage)] + size_t(layer); }

  const std::vector<Layer> &rows;
  std::vector<size_t> first;               // by stage: its first row; then the number of rows
  std::vector<Bytes> gradients, weights;   // by row: bytes of its stage before it
  std::vector<int32_t> exchanged, sharded; // by row: how many rows before it have gradients, or are sharded
};

} // namespace pipec::plan
