#include "runtime/stage/synthetic/SyntheticLayers.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::runtime {

namespace {

float *numbers(std::byte *memory) { return reinterpret_cast<float *>(memory); }

float gradientOf(int64_t element, int64_t step, int32_t sharer) { return float(1 + (element + step) % 5 + sharer); }
float weightOf(int64_t element, int64_t step) { return float((element + step) % 7); }

Status wrong(const char *what, int64_t element, const plan::Operation &operation, int64_t step, float found,
             float expected) {
  return Status::run(fmt::format("{} {} of its layers in stage {} is {} in step {}, expected {}", what, element,
                                 operation.stage, found, step, expected));
}

/// How many layers a stage has; 1 where the plan does not say.
int32_t layersIn(const plan::Variant &variant, int32_t stage) {
  if (!variant.cut.empty())
    return variant.cut[size_t(stage)];
  return std::max<int32_t>(1, int32_t(std::ranges::count(variant.layers, stage, &plan::Layer::stage)));
}

/// Small enough that all of a stage's fit in `most`, but one at least.
int64_t elementsOf(plan::Bytes bytes, plan::Bytes ofStage, plan::Bytes most) {
  const __int128 fit = ofStage <= most ? bytes : __int128(bytes) * most / ofStage;
  return bytes == 0 ? 0 : std::max<int64_t>(1, int64_t(fit) / sizeOf(Number::Float32));
}

} // namespace

SyntheticLayers::SyntheticLayers(const plan::Plan &plan, const plan::Place &place, plan::Bytes most)
    : layers(plan, place.rank) {
  const plan::Variant &variant = plan.variants.front(); // all have the same
  const std::vector<int32_t> widths = variant.widths();
  for (auto &[stage, ofStage] : layers.all()) {
    if (stage != plan::kSharedWeights)
      sharers[stage] =
          variant.sharesStages() ? Sharers{widths[size_t(stage)], place.rank} : Sharers{place.degree, place.replica};
    plan::Bytes all = 0;
    for (const LayerMemory &layer : ofStage)
      all += layer.planned.gradients;
    for (LayerMemory &layer : ofStage) {
      const bool held = stage != plan::kSharedWeights || isSummed(layer);
      layer.elements = held ? elementsOf(layer.planned.gradients, all, most) : 0;
      std::vector<float> &own = memory.emplace_back(2 * size_t(layer.elements));
      layer.gradients = reinterpret_cast<std::byte *>(own.data());
      layer.weights = reinterpret_cast<std::byte *>(own.data() + layer.elements);
    }
  }
  int32_t first = 0;
  for (int32_t stage = 0; stage != variant.stages; first += layersIn(variant, stage), ++stage)
    layersOfStage.push_back({first, layersIn(variant, stage)});
  for (const LayerMemory &weight : layers.of(plan::kSharedWeights))
    shared.push_back(sharedOf(plan, place, shared.size(), isSummed(weight)));
  reset(0);
}

/// All replicas of the ranks that hold it sum it.
SyntheticLayers::Shared SyntheticLayers::sharedOf(const plan::Plan &plan, const plan::Place &place, size_t weight,
                                                  bool isSummed) const {
  const plan::Variant &variant = plan.variants.front();
  Shared made;
  if (!isSummed)
    return made;
  const std::vector<int32_t> ranks = plan::ranksOf(variant, variant.shared[weight]);
  const auto before = std::lower_bound(ranks.begin(), ranks.end(), place.rank) - ranks.begin();
  made.sharers = {int32_t(ranks.size()) * place.degree, int32_t(before) * place.degree + place.replica};
  const std::vector<int32_t> &own = variant.programs[size_t(place.rank)].stages;
  for (const int32_t layer : variant.shared[weight].layers)
    for (const int32_t stage : own)
      if (layersOfStage[size_t(stage)].has(layer))
        made.layers.insert(layer);
  return made;
}

void SyntheticLayers::reset(int64_t step) {
  for (auto &[stage, ofStage] : layers.all())
    for (size_t l = 0; l < ofStage.size(); ++l)
      for (int64_t e = 0; e < ofStage[l].elements; ++e) {
        numbers(ofStage[l].gradients)[e] =
            gradientOf(e, step, stage == plan::kSharedWeights ? shared[l].sharers.own : sharers.at(stage).own);
        numbers(ofStage[l].weights)[e] = weightOf(e, step);
      }
}

/// The first of the rank's updates of a weight takes the sum; the gradients of the step are gone with the last.
Status SyntheticLayers::updateShared(const plan::Operation &operation, int64_t step) {
  const auto found = layers.all().find(plan::kSharedWeights);
  plan::Layers about = layersOfStage.at(operation.stage);
  if (operation.layers > 0)
    about = {about.first + operation.firstLayer, operation.layers};
  for (size_t w = 0; w < shared.size(); ++w) {
    const size_t before = shared[w].updated.size();
    for (const int32_t layer : shared[w].layers)
      if (about.has(layer))
        shared[w].updated.insert(layer);
    if (shared[w].updated.size() == before)
      continue;
    const auto [n, own] = shared[w].sharers;
    const LayerMemory &weight = found->second[w];
    const bool last = shared[w].updated == shared[w].layers;
    for (int64_t e = 0; e < weight.elements; ++e) {
      const float sum = float(n) * gradientOf(e, step, 0) + float(int64_t(n) * (n - 1) / 2);
      if (const float is = numbers(weight.gradients)[e]; is != sum)
        return wrong("the sum of shared gradient", e, operation, step, is, sum);
    }
    if (!last)
      continue;
    shared[w].updated.clear();
    for (int64_t e = 0; e < weight.elements; ++e)
      numbers(weight.gradients)[e] = gradientOf(e, step + 1, own);
  }
  return {};
}

Status SyntheticLayers::checkWeights(const plan::Operation &operation, int64_t step) {
  for (const LayerMemory &layer : layers.of(operation))
    for (int64_t e = 0; e < layer.elements; ++e)
      if (const float found = numbers(layer.weights)[e]; found != weightOf(e, step))
        return wrong("weight", e, operation, step, found, weightOf(e, step));
  return {};
}

Status SyntheticLayers::update(const plan::Operation &operation, int64_t step) {
  if (Status status = updateShared(operation, step); !status.ok())
    return status;
  const auto found = sharers.find(operation.stage);
  if (found == sharers.end())
    return {}; // none of its layers is shared
  const int64_t n = found->second.count, own = found->second.own;
  for (LayerMemory &layer : layers.of(operation)) {
    const bool sharded = layer.planned.sharded;
    const int64_t first = sharded ? layer.elements * own / n : 0;
    const int64_t last = sharded ? layer.elements * (own + 1) / n : layer.elements;
    for (int64_t e = first; e < last; ++e) {
      const float sum = float(n) * gradientOf(e, step, 0) + float(n * (n - 1) / 2);
      if (const float found = numbers(layer.gradients)[e]; found != sum)
        return wrong("the sum of gradient", e, operation, step, found, sum);
      numbers(layer.weights)[e] = weightOf(e, step + 1);
    }
    for (int64_t e = 0; e < layer.elements; ++e)
      numbers(layer.gradients)[e] = gradientOf(e, step + 1, found->second.own);
  }
  return {};
}

} // namespace pipec::runtime
