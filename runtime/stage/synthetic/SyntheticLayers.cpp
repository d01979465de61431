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
    sharers[stage] =
        variant.sharesStages() ? Sharers{widths[size_t(stage)], place.rank} : Sharers{place.degree, place.replica};
    plan::Bytes all = 0;
    for (const LayerMemory &layer : ofStage)
      all += layer.planned.gradients;
    for (LayerMemory &layer : ofStage) {
      layer.elements = elementsOf(layer.planned.gradients, all, most);
      std::vector<float> &own = memory.emplace_back(2 * size_t(layer.elements));
      layer.gradients = reinterpret_cast<std::byte *>(own.data());
      layer.weights = reinterpret_cast<std::byte *>(own.data() + layer.elements);
    }
  }
  reset(0);
}

void SyntheticLayers::reset(int64_t step) {
  for (auto &[stage, ofStage] : layers.all())
    for (LayerMemory &layer : ofStage)
      for (int64_t e = 0; e < layer.elements; ++e) {
        numbers(layer.gradients)[e] = gradientOf(e, step, sharers.at(stage).own);
        numbers(layer.weights)[e] = weightOf(e, step);
      }
}

Status SyntheticLayers::checkWeights(const plan::Operation &operation, int64_t step) {
  for (const LayerMemory &layer : layers.of(operation))
    for (int64_t e = 0; e < layer.elements; ++e)
      if (const float found = numbers(layer.weights)[e]; found != weightOf(e, step))
        return wrong("weight", e, operation, step, found, weightOf(e, step));
  return {};
}

Status SyntheticLayers::update(const plan::Operation &operation, int64_t step) {
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
