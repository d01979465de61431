// `layers` and `pipeline.cut`, as they were written: setStages makes stages of them.
#include "compiler/spec/Resolve.h"

#include "compiler/spec/Keys.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::spec {
namespace {

/// Figures that follow from layers must not be given for stages too, but for those that stand beside the layers'.
void refuseStages(const Lookup &lookup) {
  for (const Key &key : keys()) {
    if (!key.figure)
      continue;
    const plan::FigureRow &row = plan::rowOf(*key.figure);
    if (!row.besideLayers && lookup.given(key.path))
      lookup.errors.add(lookup.markOf(key.path), fmt::format("{}: give either this, or layers", key.path),
                        lookup.markOf("layers"), "layers is given here");
  }
}

const char *formName(BackwardForm form) {
  return form == BackwardForm::Fused   ? "backward"
         : form == BackwardForm::Split ? "backward_input and backward_weight"
                                       : "backward, backward_input and backward_weight";
}

/// The figures of a layer or a split, but for its gradients, which may be a list.
plan::Figures readFigures(const Lookup &lookup, const std::string &path, const Spec &spec) {
  plan::Figures figures;
  for (const plan::FigureRow &row : plan::kFigureTable)
    if (const std::string key = fmt::format("{}.{}", path, row.key); row.figure != Figure::Gradients && lookup.get(key))
      figures.set(row.figure, lookup.ofMicrobatch(key, spec, plan::mostOf(row)));
  if (!figures.has(Figure::Recompute))
    figures.set(Figure::Recompute, figures[Figure::Forward]);
  return figures;
}

void readSplits(const Lookup &lookup, const std::string &path, const Spec &spec, Layer &layer) {
  for (size_t i = 0; lookup.given(fmt::format("{}.splits[{}]", path, i)) && !lookup.errors.full(); ++i) {
    const std::string own = fmt::format("{}.splits[{}]", path, i);
    if (!lookup.get(own))
      continue;
    Split split;
    split.figures = readFigures(lookup, own, spec);
    split.mark = lookup.markOf(own);
    Marked<int64_t> units{1, {}};
    lookup.single(own + ".units", units);
    split.units = units.value;
    if (const Value *gradients = lookup.get(own + ".gradients")) {
      layer.tensors.push_back(gradients->numbers[0].fixed);
      split.figures.set(Figure::Gradients, layer.tensors.back());
    }
    split.sum = lookup.ofMicrobatch(own + ".sum", spec, limits::kBytes);
    Marked<std::string> name;
    lookup.text(own + ".name", name);
    split.name = name.value;
    for (const Split &other : layer.splits)
      if (other.name == split.name)
        lookup.errors.add(
            name.mark,
            fmt::format("{}.name: expected each name once in a layer, found {} again", own, quoted(split.name)),
            other.mark, "first given here");
    layer.figures += split.figures;
    layer.splits.push_back(std::move(split));
  }
  if (const Value *list = lookup.get(path + ".splits"); list && list->node->items.empty())
    lookup.errors.add(list->mark, fmt::format("{}.splits: expected at least one split, found an empty list", path));
}

LayerBySamples readBySamples(const Lookup &lookup, const std::string &path) {
  const std::string boundary = path + ".boundary";
  return {lookup.timesBySamples(path + ".forward"), lookup.timesBySamples(path + ".backward"),
          lookup.sizeBySample(lookup.given(boundary) ? boundary : "tensors.boundary"),
          lookup.sizeBySample(path + ".activation"), lookup.sizeBySample(path + ".weight_context")};
}

/// One layer of the entry. Its form of backward must be that of the entries before it.
Layer readLayer(const Lookup &lookup, const std::string &path, const Spec &spec) {
  Layer layer;
  layer.figures = readFigures(lookup, path, spec);
  layer.mark = lookup.markOf(path);
  Marked<int64_t> count{1, {}};
  lookup.single(path + ".count", count);
  layer.count = count.value;
  if (const Value *gradients = lookup.get(path + ".gradients")) {
    int64_t sum = 0;
    for (const Number &tensor : gradients->numbers) {
      layer.tensors.push_back(tensor.fixed);
      sum = std::min(sum + tensor.fixed, limits::kBytes + 1); // which setStages refuses
    }
    layer.figures.set(Figure::Gradients, sum);
  }
  layer.bySamples = readBySamples(lookup, path);
  layer.own = layer.figures;
  readSplits(lookup, path, spec, layer);
  if (layer.splits.empty() && !lookup.given(path + ".forward"))
    lookup.errors.add(layer.mark, fmt::format("{}.forward is missing", path));
  return layer;
}

/// The form of backward that a layer and its splits have: the same, where the layer has any of its own.
BackwardForm formOf(const Lookup &lookup, const std::string &path, const Layer &layer) {
  const auto given = [&](const char *name) { return lookup.given(path + name); };
  const bool own = layer.splits.empty() || given(".backward") || given(".backward_input") || given(".backward_weight");
  BackwardForm form = own ? backwardForm(lookup, path) : BackwardForm::None;
  for (size_t i = 0; i < layer.splits.size(); ++i) {
    const std::string of = fmt::format("{}.splits[{}]", path, i);
    const BackwardForm its = backwardForm(lookup, of);
    if (form == BackwardForm::None)
      form = its;
    else if (its != BackwardForm::None && its != form)
      lookup.errors.add(lookup.markOf(of),
                        fmt::format("{}: expected {} as in {}", of, formName(form), own ? path : path + ".splits[0]"));
  }
  return form;
}

/// A list by stage says what a stage has whichever layers it gets.
void refuseLists(const Lookup &lookup, Mark chooser, const char *note) {
  for (const Key &key : keys())
    for (const std::string &path : {std::string(key.path), fmt::format("{}.time", key.path)})
      if (const Value *value = key.byLayer.empty() ? nullptr : lookup.get(path); value && value->node->isSequence())
        lookup.errors.add(
            value->mark,
            fmt::format("{}: expected {}, which goes with any cut, found a list by stage", path, key.byLayer), chooser,
            note);
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
    return refuseLists(lookup, cut->mark, "pipeline.cut: auto is given here");
  spec.layers->cut.emplace().mark = cut->mark;
  for (const Number &number : cut->numbers)
    spec.layers->cut->value.push_back(number.fixed);
}

} // namespace

void resolveLayers(const Lookup &lookup, Spec &spec) {
  if (lookup.given("layers")) {
    refuseStages(lookup);
    if (spec.isBurst())
      refuseLists(lookup, spec.schedule.mark, "schedule burst, which makes its own stages, is given here");
    Layers &layers = spec.layers.emplace();
    layers.mark = lookup.markOf("layers");
    layers.beside = spec.figures;
    BackwardForm form = BackwardForm::None;
    for (size_t i = 0; lookup.given(fmt::format("layers[{}]", i)) && !lookup.errors.full(); ++i) {
      std::string path = fmt::format("layers[{}]", i);
      if (!lookup.get(path))
        continue;
      layers.entries.push_back(readLayer(lookup, path, spec));
      BackwardForm own = formOf(lookup, path, layers.entries.back());
      if (form == BackwardForm::None)
        form = own;
      else if (own != BackwardForm::None && own != form)
        lookup.errors.add(lookup.markOf(path), fmt::format("{}: expected {} as in layers[0]", path, formName(form)),
                          layers.entries[0].mark, "layers[0] is given here");
    }
    if (const Value *list = lookup.get("layers"); list && list->node->items.empty())
      lookup.errors.add(layers.mark, "layers: expected at least one layer, found an empty list");
    if (layers.count() > limits::kModelLayers)
      lookup.errors.add(layers.mark, fmt::format("layers: expected at most {} in all, found {}", limits::kModelLayers,
                                                 layers.count()));
    // Which figures the stages have is known before there are stages.
    const auto isGiven = [&](Figure figure) {
      return layers.beside.has(figure) || std::any_of(layers.entries.begin(), layers.entries.end(),
                                                      [figure](const Layer &each) { return each.figures.has(figure); });
    };
    PerStage ofLayers;
    ofLayers.mark = layers.mark;
    for (const plan::FigureRow &row : plan::kFigureTable) {
      bool has = row.fromLayers == plan::FromLayers::Sum && !row.besideLayers;
      if (row.figure == Figure::Backward)
        has = form == BackwardForm::Fused || form == BackwardForm::Both;
      else if (row.figure == Figure::BackwardInput || row.figure == Figure::BackwardWeight)
        has = form != BackwardForm::Fused;
      else if (row.figure == Figure::BoundaryGradient || row.figure == Figure::RecomputeInput)
        has = isGiven(row.figure);
      if (has)
        spec.figures.set(row.figure) = ofLayers;
      else if (row.figure == Figure::Boundary || row.figure == Figure::Static || row.figure == Figure::Optimizer)
        spec.figures.set(row.figure); // as it is written beside the layers, else 0, until setStages
    }
  }
  readCut(lookup, spec);
}

} // namespace pipec::spec
