#include "runtime/transport/Shares.h"

#include <algorithm>

namespace pipec::runtime {

namespace {

/// ⌊a · b / c⌋ for a, b, c ≥ 0; c = 0: 0.
int64_t part(int64_t a, int64_t b, int64_t c) { return c == 0 ? 0 : int64_t(__int128(a) * b / c); }

/// How many elements of a layer of `elements` in `bytes` begin before byte `at` of it.
int64_t elementsBefore(plan::Bytes at, plan::Bytes bytes, int64_t elements) {
  if (at <= 0 || bytes == 0)
    return 0;
  return at >= bytes ? elements : int64_t((__int128(at) * elements + bytes - 1) / bytes);
}

} // namespace

std::vector<Extent> shareOf(const plan::Operation &operation, std::span<const LayerMemory> layers, int32_t replica,
                            int32_t replicas) {
  const bool ofWeights = operation.of == plan::Payload::Weights;
  const auto bytesOf = [&](const LayerMemory &layer) {
    return ofWeights ? layer.planned.weights : layer.planned.gradients;
  };
  std::vector<Extent> extents;
  plan::Bytes before = 0; // bytes of the layers before
  for (size_t l = 0; l < layers.size(); before += bytesOf(layers[l]), ++l) {
    const LayerMemory &layer = layers[l];
    if (int64_t(l) < operation.firstLayer || int64_t(l) >= int64_t(operation.firstLayer) + operation.layers)
      continue;
    const bool whole = operation.end == 0;
    const plan::Bytes bytes = bytesOf(layer);
    const int64_t from = whole ? 0 : elementsBefore(operation.begin - before, bytes, layer.elements);
    const int64_t to = whole ? layer.elements : elementsBefore(operation.end - before, bytes, layer.elements);
    const int64_t first = std::max(from, part(layer.elements, replica, replicas));
    const int64_t last = std::min(to, part(layer.elements, replica + 1, replicas));
    if (first < last)
      extents.push_back(
          {(ofWeights ? layer.weights : layer.gradients) + first * sizeOf(layer.type), last - first, layer.type});
  }
  return extents;
}

std::vector<std::vector<Extent>> partsOf(const std::vector<Extent> &extents, plan::Bytes most) {
  std::vector<std::vector<Extent>> parts(1);
  plan::Bytes room = most;
  for (Extent extent : extents)
    while (extent.count > 0) {
      const int64_t fits = std::min(extent.count, room / sizeOf(extent.type));
      if (fits == 0) {
        parts.emplace_back();
        room = most;
        continue;
      }
      parts.back().push_back({extent.data, fits, extent.type});
      room -= fits * sizeOf(extent.type);
      extent.data += fits * sizeOf(extent.type);
      extent.count -= fits;
    }
  return parts;
}

} // namespace pipec::runtime
