// Layers summed up by stages, in time linear in entries and stages, whatever the counts; then the rules that need the
// number of stages.
#include "compiler/spec/Stages.h"

#include "compiler/spec/Keys.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <numeric>
#include <utility>

namespace pipec::spec {
namespace {

/// A list by stage has an entry for each.
void checkList(const Spec &spec, std::string_view path, const PerStage &values, Errors &errors) {
  if (!values.list || values.values.size() == static_cast<size_t>(spec.stages))
    return;
  bool byDefault = !spec.stagesPerRank && !spec.placement && spec.stages == spec.ranks.value;
  errors.add(values.mark, fmt::format("{}: expected {} values, one for each stage{}, found {}", path, spec.stages,
                                      byDefault ? " (stages_per_rank is 1 unless given)" : "", values.values.size()));
}

void checkLists(const Spec &spec, Errors &errors) {
  const StageFigures &written = spec.layers ? spec.layers->beside : spec.figures;
  for (const Key &key : keys())
    if (key.figure)
      checkList(spec, key.path, written[*key.figure], errors);
}

/// A cut to go on with.
std::string suggestion(int64_t layers, int32_t stages) {
  constexpr int32_t kShown = 16;
  if (const int64_t extra = layers % stages; stages > kShown)
    return fmt::format("{} stages of {} and {} of {}", extra, layers / stages + 1, stages - extra, layers / stages);
  return fmt::format("[{}]", fmt::join(evenCut(layers, stages), ", "));
}

/// Layers of each stage; empty after an error.
std::vector<int64_t> cutOf(const Spec &spec, Errors &errors) {
  const Layers &layers = *spec.layers;
  const int64_t count = layers.count();
  std::vector<int64_t> found = cutOf(spec, spec.stages);
  if (!found.empty())
    return found;
  if (layers.cut && !layers.choosesCut) {
    const auto &[cut, mark] = *layers.cut;
    if (cut.size() != static_cast<size_t>(spec.stages))
      errors.add(
          mark, fmt::format("pipeline.cut: expected {} values, one for each stage, found {}", spec.stages, cut.size()));
    else
      errors.add(mark,
                 fmt::format("pipeline.cut: expected {} layers in all, found {}", count,
                             std::accumulate(cut.begin(), cut.end(), int64_t(0))),
                 layers.mark, "layers is given here");
  } else if (count < spec.stages) {
    errors.add(layers.mark,
               fmt::format("layers: expected at least one for each of the {} stages, found {}", spec.stages, count));
  } else {
    errors.add(layers.mark, fmt::format("layers: {} layers do not divide equally among {} stages; say how many go to "
                                        "each with pipeline.cut, for example {}; or auto, which chooses",
                                        count, spec.stages, suggestion(count, spec.stages)));
  }
  return found;
}

const char *limitText(const plan::FigureRow &row) {
  return row.unit == plan::FigureUnit::Time ? "10^18 ps" : "2^60 bytes";
}

/// Figures of a stage that come from its layers and from what stands beside them.
void addWhatIsBeside(Spec &spec, size_t stage, const Layer &last, Mark mark, Errors &errors) {
  const Layers &layers = *spec.layers;
  const auto giveLast = [&](Figure figure, const PerStage &fallback) {
    PerStage &into = spec.figures.set(figure);
    const bool own = last.figures.has(figure);
    into.values[stage] = own ? last.figures[figure] : fallback[stage];
    into.marks[stage] = own ? last.mark : fallback.markOf(stage);
  };
  giveLast(Figure::Boundary, layers.beside[Figure::Boundary]);
  if (spec.has(Figure::BoundaryGradient))
    giveLast(Figure::BoundaryGradient, layers.beside.has(Figure::BoundaryGradient)
                                           ? layers.beside[Figure::BoundaryGradient]
                                           : spec[Figure::Boundary]);
  // Four numbers of at most 2^60 each do not overflow.
  PerStage &fixed = spec.figures.set(Figure::Static);
  fixed.marks[stage] = mark;
  int64_t &always = fixed.values[stage];
  int64_t &update = spec.figures.set(Figure::Optimizer).values[stage];
  always = spec[Figure::Weights][stage] + spec[Figure::Gradients][stage] + spec[Figure::OptimizerState][stage] +
           layers.beside[Figure::Static][stage];
  update += layers.beside[Figure::Optimizer][stage];
  const auto check = [&](int64_t value, Figure figure, const char *parts) {
    if (const plan::FigureRow &row = plan::rowOf(figure); value > plan::mostOf(row))
      errors.add(mark, fmt::format("layers: {} of stage {} come to more than {}", parts, stage, limitText(row)));
    return value <= plan::mostOf(plan::rowOf(figure));
  };
  if (check(always, Figure::Static, "weights, gradients, optimizer_state and tensors.static"))
    check(update, Figure::Optimizer, "optimizer and costs.optimizer");
}

void sumUp(Spec &spec, Errors &errors) {
  const std::vector<int64_t> cut = cutOf(spec, errors);
  const Layers &layers = *spec.layers;
  if (cut.empty())
    return;
  std::vector<const plan::FigureRow *> sums; // the figures that are sums
  for (const plan::FigureRow &row : plan::kFigureTable) {
    if (row.figure == Figure::Overlapped || !spec.has(row.figure))
      continue;
    PerStage &into = spec.figures.set(row.figure);
    into.mark = layers.mark;
    into.list = true;
    into.values.assign(cut.size(), 0);
    into.marks.assign(cut.size(), layers.mark);
    if (row.fromLayers == plan::FromLayers::Sum)
      sums.push_back(&row);
  }

  size_t entry = 0;
  int64_t used = 0; // of that entry's layers
  for (size_t stage = 0; stage < cut.size(); ++stage) {
    std::array<__int128, plan::kFigures> totals{};
    const Mark mark = layers.entries[entry].mark;
    const Layer *last = nullptr;
    for (int64_t left = cut[stage]; left > 0;) {
      last = &layers.entries[entry];
      int64_t taken = std::min(left, last->count - used);
      for (const plan::FigureRow *row : sums)
        totals[size_t(row->figure)] += static_cast<__int128>(last->figures[row->figure]) * taken;
      left -= taken;
      used += taken;
      if (used == last->count && entry + 1 < layers.entries.size()) {
        ++entry;
        used = 0;
      }
    }
    for (const plan::FigureRow *row : sums) {
      const __int128 total = totals[size_t(row->figure)];
      if (total > plan::mostOf(*row))
        return errors.add(mark, fmt::format("layers: {} of the {} layers of stage {} comes to more than {}", row->key,
                                            cut[stage], stage, limitText(*row)));
      PerStage &into = spec.figures.set(row->figure);
      into.values[stage] = static_cast<int64_t>(total);
      into.marks[stage] = mark;
    }
    addWhatIsBeside(spec, stage, *last, mark, errors);
    if (errors.any())
      return;
  }
}

/// Checks that the stages of `recompute` exist, each once, and that what they keep is less than what they need not.
void checkRecompute(const Spec &spec, Errors &errors) {
  const Recompute &given = spec.recomputed;
  std::map<int64_t, Mark> first;
  for (size_t i = 0; i < given.marks.size(); ++i) {
    const int64_t stage = given.stages.value[i];
    if (stage >= spec.stages)
      errors.add(given.marks[i],
                 fmt::format("recompute[{}]: expected a stage from 0 to {}, found {}", i, spec.stages - 1, stage));
    if (const auto [at, isNew] = first.emplace(stage, given.marks[i]); !isNew)
      errors.add(given.marks[i], fmt::format("recompute[{}]: expected each stage once, found {} again", i, stage),
                 at->second, "first given here");
  }
  // Of a cut that is still to be chosen nothing is known, and one that is chosen suits.
  if (spec.layers && spec.layers->choosesCut && !(given.isSpelledOut() && spec.layers->cut))
    return;
  for (int64_t stage = 0; stage < spec.stages && !errors.full(); ++stage) {
    const int64_t input = recomputeInputOf(spec, stage);
    // Two numbers of at most 2^60 each do not overflow.
    const int64_t kept = spec[Figure::Activation][size_t(stage)] + spec[Figure::WeightContext][size_t(stage)];
    const bool ofKey = spec.has(Figure::RecomputeInput);
    if (input <= kept || !(ofKey || (given.isSpelledOut() && given.has(stage))))
      continue;
    const std::string what =
        fmt::format("recompute_input: expected at most activation and weight_context of stage {}, {} bytes, found {}",
                    stage, kept, input);
    if (ofKey)
      errors.add(spec[Figure::RecomputeInput].markOf(size_t(stage)), (spec.layers ? "layers[]." : "tensors.") + what);
    else
      errors.add(given.stages.mark,
                 fmt::format("recompute: stage {} would keep the {} bytes that it receives in place of activation and "
                             "weight_context of {}: give {}recompute_input, or leave the stage out",
                             stage, input, kept, spec.layers ? "layers[]." : "tensors."));
    return;
  }
}

/// Checks that what replicas may share out is part of what is always there. Of layers it is by itself.
void checkState(const Spec &spec, Errors &errors) {
  for (size_t stage = 0; !spec.layers && stage < size_t(spec.stages); ++stage) {
    const int64_t state = spec[Figure::OptimizerState][stage], always = spec[Figure::Static][stage];
    if (state > always)
      return errors.add(spec[Figure::OptimizerState].markOf(stage),
                        fmt::format("tensors.optimizer_state: expected at most tensors.static of stage {}, {} bytes, "
                                    "found {}",
                                    stage, always, state));
  }
}

/// Checks that a step is not too long under any schedule, by the least time that any takes.
void checkWork(const Spec &spec, Errors &errors) {
  int64_t instructions = 2 * int64_t(spec.stages) * spec.microbatches.value; // F and a backward
  if (instructions > limits::kExecutedInstructions)
    errors.add(spec.microbatches.mark,
               fmt::format("{} stages and {} microbatches need {} instructions a step, over the limit of {}",
                           spec.stages, spec.microbatches.value, instructions, limits::kExecutedInstructions));
  for (size_t stage = 0; stage < static_cast<size_t>(spec.stages); ++stage) {
    __int128 time = spec[Figure::Forward][stage];
    __int128 backward = limits::kTime;
    if (spec.has(Figure::Backward))
      backward = spec[Figure::Backward][stage];
    if (spec.has(Figure::BackwardInput))
      backward = std::min(spec.has(Figure::Backward) ? backward : backward * 2,
                          __int128(spec[Figure::BackwardInput][stage]) + spec[Figure::BackwardWeight][stage]);
    time += backward;
    if (time * spec.microbatches.value <= limits::kTime)
      continue;
    errors.add(spec[Figure::Forward].markOf(stage),
               fmt::format("costs: stage {} works longer than 10^18 ps in a step of {} microbatches", stage,
                           spec.microbatches.value));
    return;
  }
}

/// Of a layer; without layers, of a stage.
int64_t gradientsOf(const Spec &spec, int64_t layer) {
  if (!spec.layers)
    return spec[Figure::Gradients][size_t(layer)];
  for (const Layer &each : spec.layers->entries)
    if ((layer -= each.count) < 0)
      return each.figures[Figure::Gradients];
  return 0;
}

/// Shared weights are of layers that there are. What replicas sum of a layer has them.
void checkShared(const Spec &spec, Errors &errors) {
  const int64_t count = spec.layers ? spec.layers->count() : spec.stages;
  for (const SharedWeight &weight : spec.shared)
    for (size_t i = 0; i != weight.layers.size(); ++i) {
      const int32_t layer = weight.layers[i];
      if (layer >= count)
        errors.add(weight.marks[i],
                   fmt::format("shared: expected {} from 0 to {}, found {}",
                               spec.layers ? "layers" : "stages (there are no layers)", count - 1, layer));
      else if (spec.dataParallel.degree.value > 1 && gradientsOf(spec, layer) < weight.gradients)
        errors.add(
            weight.marks[i],
            fmt::format("shared: expected a layer with the {} bytes of gradients of the weight that it holds, found "
                        "layer {} with {}",
                        weight.gradients, layer, gradientsOf(spec, layer)));
    }
}

} // namespace

std::vector<int32_t> stagesOf(const Spec &spec, const SharedWeight &weight, int32_t stages) {
  const std::vector<int64_t> cut = cutOf(spec, stages);
  if (cut.empty())
    return weight.layers;
  std::vector<int32_t> found;
  int64_t end = cut.front(); // of the layers of `stage`
  int32_t stage = 0;
  for (const int32_t layer : weight.layers) {
    while (layer >= end && size_t(stage) + 1 < cut.size())
      end += cut[size_t(++stage)];
    if (found.empty() || found.back() != stage)
      found.push_back(stage);
  }
  return found;
}

std::vector<int64_t> cutOf(const Spec &spec, int32_t stages) {
  if (!spec.layers)
    return {};
  const Layers &layers = *spec.layers;
  const int64_t count = layers.count();
  // Another variant may have chosen a cut for another number of stages; what is wrong then is said of the placement.
  if (layers.cut && (!layers.choosesCut || layers.cut->value.size() == static_cast<size_t>(stages))) {
    const std::vector<int64_t> &cut = layers.cut->value;
    const bool fits =
        cut.size() == static_cast<size_t>(stages) && std::accumulate(cut.begin(), cut.end(), int64_t(0)) == count;
    return fits ? cut : std::vector<int64_t>();
  }
  return count >= stages && (layers.choosesCut || count % stages == 0) ? evenCut(count, stages)
                                                                       : std::vector<int64_t>();
}

std::vector<int64_t> evenCut(int64_t layers, int32_t stages) {
  const int64_t extra = layers % stages, before = (stages - extra) / 2;
  std::vector<int64_t> cut(static_cast<size_t>(stages), layers / stages);
  for (int64_t i = 0; i < extra; ++i)
    ++cut[static_cast<size_t>(before + i)];
  return cut;
}

int64_t recomputeInputOf(const Spec &spec, int64_t stage) {
  return spec.has(Figure::RecomputeInput) ? spec[Figure::RecomputeInput][size_t(stage)]
         : stage == 0                     ? 0
                                          : spec[Figure::Boundary][size_t(stage) - 1];
}

void setStages(Spec &spec, int32_t stages, Errors &errors) {
  if (stages < 1 || stages > limits::kStages) {
    errors.add(spec.schedule.mark,
               fmt::format("schedule: expected 1 to {} stages in all, found {}", limits::kStages, stages));
    return;
  }
  spec.stages = stages;
  checkLists(spec, errors);
  if (spec.layers && !errors.any())
    sumUp(spec, errors);
  if (!errors.any())
    checkWork(spec, errors);
  if (!errors.any())
    checkRecompute(spec, errors);
  if (!errors.any())
    checkState(spec, errors);
  if (!errors.any())
    checkShared(spec, errors);
}

bool setStages(Spec &spec, int32_t stages, std::vector<Diagnostic> &diagnostics) {
  Errors errors(spec.sources);
  setStages(spec, stages, errors);
  bool right = !errors.any();
  for (Diagnostic &diagnostic : errors.take())
    diagnostics.push_back(std::move(diagnostic));
  return right;
}

} // namespace pipec::spec
