#include "runtime/stage/LayerTable.h"

#include "runtime/plan/Layers.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::runtime {

LayerTable::LayerTable(const plan::Plan &plan, int32_t rank) {
  const plan::Variant &variant = plan.variants.front(); // all have the same
  const std::vector<int32_t> &own = variant.programs[size_t(rank)].stages;
  for (const plan::Layer &layer : variant.layers)
    if (std::find(own.begin(), own.end(), layer.stage) != own.end())
      stages[layer.stage].push_back({.planned = layer});
  addShared(variant, rank);
  for (const int32_t stage : own)
    counts[stage] = plan::layersOf(variant, stage).count;
  for (const auto &[stage, layers] : stages)
    counts[stage] = int32_t(layers.size());
}

void LayerTable::addShared(const plan::Variant &variant, int32_t rank) {
  const std::vector<int32_t> &own = variant.programs[size_t(rank)].stages;
  std::vector<LayerMemory> weights;
  bool any = false;
  for (const plan::SharedWeight &weight : variant.shared) {
    LayerMemory &memory = weights.emplace_back();
    memory.planned = {plan::kSharedWeights, weight.gradients, weight.gradients, false};
    if (plan::ranksOf(variant, weight).size() < 2)
      continue;
    for (const int32_t stage : weight.stages)
      if (memory.planned.stage == plan::kSharedWeights && std::binary_search(own.begin(), own.end(), stage)) {
        memory.planned.stage = stage;
        any = true;
      }
  }
  if (any)
    stages[plan::kSharedWeights] = std::move(weights);
}

std::span<const LayerMemory> LayerTable::of(int32_t stage) const {
  const auto found = stages.find(stage);
  return found == stages.end() ? std::span<const LayerMemory>() : found->second;
}

std::span<LayerMemory> LayerTable::of(const plan::Operation &operation) {
  const auto found = stages.find(operation.stage);
  if (found == stages.end())
    return {};
  const std::span<LayerMemory> whole(found->second);
  return operation.layers == 0 ? whole : whole.subspan(size_t(operation.firstLayer), size_t(operation.layers));
}

bool LayerTable::sharded(const plan::Operation &operation) const {
  std::span<const LayerMemory> layers = of(operation.stage);
  if (operation.layers > 0)
    layers = layers.subspan(size_t(operation.firstLayer), size_t(operation.layers));
  return std::any_of(layers.begin(), layers.end(), [](const LayerMemory &layer) { return layer.planned.sharded; });
}

int32_t LayerTable::count(const plan::Operation &operation) const {
  const auto found = counts.find(operation.stage);
  return operation.layers > 0 ? operation.layers : found == counts.end() ? 0 : found->second;
}

std::string takeLayer(const PipecLayer &found, LayerMemory &memory) {
  if (found.type != PIPEC_FLOAT32 && found.type != PIPEC_FLOAT64)
    return fmt::format("its numbers are of type {}, expected {} or {}", found.type, PIPEC_FLOAT32, PIPEC_FLOAT64);
  memory.gradients = static_cast<std::byte *>(found.gradients);
  memory.weights = static_cast<std::byte *>(found.weights);
  memory.elements = found.elements;
  memory.type = Number(found.type);
  const plan::Bytes bytes = found.elements * sizeOf(memory.type);
  if (bytes != memory.planned.gradients)
    return fmt::format("has {} bytes of gradients, the plan {}", bytes, memory.planned.gradients);
  if (memory.planned.sharded && bytes != memory.planned.weights)
    return fmt::format("has {} bytes of weights, the plan {}", bytes, memory.planned.weights);
  if (bytes > 0 && (!memory.gradients || !memory.weights))
    return "has no gradients or no weights";
  return {};
}

} // namespace pipec::runtime
