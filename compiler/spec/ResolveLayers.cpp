// `layers` and `pipeline.cut`, as they were written: setStages makes stages of them.
#include "compiler/spec/Resolve.h"

#include "compiler/spec/Keys.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::spec {
namespace {

/// Costs and sizes that layers add up to must not be given for stages too; a boundary may, as the layers' default.
void refuseStages(const Lookup &lookup) {
  for (const Key *key : keysOf("layers[]"))
    for (std::string_view map : {"costs", "tensors"})
      if (std::string path = fmt::format("{}.{}", map, key->name());
          key->name() != "boundary" && key->name() != "optimizer" && lookup.given(path))
        lookup.errors.add(lookup.markOf(path), fmt::format("{}: give either this, or layers", path),
                          lookup.markOf("layers"), "layers is given here");
}

/// One layer of the entry. Its form of backward must be that of the entries before it.
Layer readLayer(const Lookup &lookup, const std::string &path, const Spec &spec) {
  auto time = [&](const char *name) { return lookup.ofMicrobatch(path + name, spec, limits::kTime); };
  auto size = [&](const char *name) { return lookup.ofMicrobatch(path + name, spec, limits::kBytes); };
  Layer layer;
  layer.mark = lookup.markOf(path);
  Marked<int64_t> count{1, {}};
  lookup.single(path + ".count", count);
  layer.count = count.value;
  layer.forward = time(".forward");
  layer.backwardInput = time(".backward_input");
  layer.backwardWeight = time(".backward_weight");
  layer.backward = time(".backward");
  if (lookup.get(path + ".boundary"))
    layer.boundary = size(".boundary");
  layer.recompute = lookup.get(path + ".recompute") ? time(".recompute") : layer.forward;
  layer.recomputeInput = size(".recompute_input");
  layer.activation = size(".activation");
  layer.weightContext = size(".weight_context");
  layer.backwardContext = size(".backward_context");
  layer.weights = size(".weights");
  if (const Value *gradients = lookup.get(path + ".gradients"))
    for (const Number &tensor : gradients->numbers) {
      layer.tensors.push_back(tensor.fixed);
      layer.gradients = std::min(layer.gradients + tensor.fixed, limits::kBytes + 1); // which setStages refuses
    }
  layer.optimizerState = size(".optimizer_state");
  layer.optimizer = time(".optimizer");
  return layer;
}

/// A list by stage says what a stage has whichever layers it gets.
void refuseLists(const Lookup &lookup, Mark cut) {
  for (const Key &key : keys())
    for (const std::string &path : {std::string(key.path), fmt::format("{}.time", key.path)})
      if (const Value *value = key.byLayer.empty() ? nullptr : lookup.get(path); value && value->node->isSequence())
        lookup.errors.add(
            value->mark,
            fmt::format("{}: expected {}, which goes with any cut, found a list by stage", path, key.byLayer), cut,
            "pipeline.cut: auto is given here");
}

void readCut(const Lookup &lookup, Spec &spec) {
  const Value *cut = lookup.get("pipeline.cut");
  if (!cut)
    return;
  if (!spec.layers) {
    lookup.errors.add(cut->mark, "pipeline.cut: expected layers to cut, found none");
    return;
  }
  spec.layers->cutMark = cut->mark;
  spec.layers->choosesCut = !cut->node->isSequence();
  if (spec.layers->choosesCut)
    return refuseLists(lookup, cut->mark);
  spec.layers->cut.emplace().mark = cut->mark;
  for (const Number &number : cut->numbers)
    spec.layers->cut->value.push_back(number.fixed);
}

} // namespace

void resolveLayers(const Lookup &lookup, Spec &spec) {
  if (lookup.given("layers")) {
    refuseStages(lookup);
    Layers &layers = spec.layers.emplace();
    layers.mark = lookup.markOf("layers");
    layers.boundary = spec.boundary;
    layers.staticBytes = spec.staticBytes;
    layers.optimizer = spec.optimizer;
    BackwardForm form = BackwardForm::None;
    for (size_t i = 0; lookup.given(fmt::format("layers[{}]", i)) && !lookup.errors.full(); ++i) {
      std::string path = fmt::format("layers[{}]", i);
      if (!lookup.get(path))
        continue;
      layers.entries.push_back(readLayer(lookup, path, spec));
      BackwardForm own = backwardForm(lookup, path);
      if (form == BackwardForm::None)
        form = own;
      else if (own != BackwardForm::None && own != form)
        lookup.errors.add(lookup.markOf(path),
                          fmt::format("{}: expected {} as in layers[0]", path,
                                      form == BackwardForm::Fused   ? "backward"
                                      : form == BackwardForm::Split ? "backward_input and backward_weight"
                                                                    : "backward, backward_input and backward_weight"),
                          layers.entries[0].mark, "layers[0] is given here");
    }
    if (const Value *list = lookup.get("layers"); list && list->node->items.empty())
      lookup.errors.add(layers.mark, "layers: expected at least one layer, found an empty list");
    PerStage ofLayers;
    ofLayers.mark = layers.mark;
    spec.recompute = ofLayers;
    for (size_t i = 0; i < layers.entries.size(); ++i)
      if (lookup.given(fmt::format("layers[{}].recompute_input", i)))
        spec.recomputeInput = ofLayers;
    spec.forward = spec.activation = spec.weightContext = spec.backwardContext = spec.gradients = ofLayers;
    if (form == BackwardForm::Fused || form == BackwardForm::Both)
      spec.backward = ofLayers;
    if (form != BackwardForm::Fused)
      spec.backwardInput = spec.backwardWeight = ofLayers;
  }
  readCut(lookup, spec);
}

} // namespace pipec::spec
