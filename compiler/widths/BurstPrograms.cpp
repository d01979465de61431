#include "compiler/widths/BurstPrograms.h"

#include "compiler/passes/Lowered.h"
#include "runtime/plan/Limits.h"
#include "runtime/simulate/Simulate.h"

#include <algorithm>
#include <numeric>

namespace pipec::widths {
namespace {

using plan::Bytes;
using plan::Figure;
using plan::Kind;
using plan::Payload;
using plan::Time;

class Builder {
public:
  Builder(const spec::Spec &spec, const burst::Problem &problem, std::vector<Stage> itsStages, const Sums &sums,
          mlir::Location place)
      : spec(spec), problem(problem), layers(layersOf(spec)), stages(std::move(itsStages)), sums(sums), place(place) {}

  ProgramSet run() {
    for (const Stage &stage : stages) {
      std::vector<int32_t> ranks(size_t(stage.width));
      std::iota(ranks.begin(), ranks.end(), 0);
      set.stageGroups.push_back(stage.width == 1 ? -1 : set.groupOf(std::move(ranks)));
      const bool last = stage.end == problem.layers.size();
      set.boundaries.push_back(
          last ? 0 : std::min(problem.layers[stage.end - 1].perSample, limits::kBytes / problem.batch)); // P7
    }
    set.batch = problem.batch;
    for (size_t stage = 0; stage != stages.size(); ++stage)
      for (size_t layer = stages[stage].first; layer != stages[stage].end; ++layer)
        set.layers.push_back({int32_t(stage), problem.layers[layer].gradients, 0, false});
    for (int32_t rank = 0; rank != problem.ranks; ++rank)
      build(rank);
    return std::move(set);
  }

private:
  static constexpr uint32_t kNone = pipec::kNone;

  bool holds(size_t stage) const { return program->rank < stages[stage].width; }
  /// Whether what one of two neighbouring stages hands to the other changes ranks, among them this one.
  bool crosses(size_t stage, size_t other) const {
    const int32_t one = stages[stage].width, two = stages[other].width;
    return one != two && program->rank < std::max(one, two);
  }

  void build(int32_t rank) {
    program = &set.programs.emplace_back(place);
    program->rank = rank;
    program->places.push_back(place);
    if (const int64_t limit = spec.memoryLimits.empty() ? spec.memoryLimit.value : spec.memoryLimits[size_t(rank)];
        limit != 0)
      program->memoryLimit = limit;
    for (size_t stage = 0; stage != stages.size(); ++stage)
      if (holds(stage)) {
        program->stages.push_back(int32_t(stage));
        program->staticBytes += staticOf(stage);
        program->workspace = spec.workspace.value;
      }
    received = kNone;
    for (size_t stage = 0; stage != stages.size(); ++stage) {
      if (holds(stage))
        addPass(Kind::Forward, stage);
      if (stage + 1 != stages.size() && crosses(stage, stage + 1))
        addReshard(Payload::Forward, stage, stage + 1);
    }
    reduced.assign(stages.size(), kNone);
    for (size_t stage = stages.size(); stage-- != 0;) {
      if (holds(stage))
        addPass(Kind::Backward, stage);
      if (stage != 0 && crosses(stage, stage - 1))
        addReshard(Payload::Backward, stage, stage - 1);
      for (size_t own = stages.size(); own-- != stage;)
        if (own - stage == sums[own])
          addSum(own);
    }
    for (size_t stage = stages.size(); stage-- != 0;)
      if (holds(stage))
        addUpdate(stage);
    program->sortUses();
  }

  uint32_t add(const plan::Operation &operation) {
    Instruction made;
    made.operation = program->indexOf(operation);
    made.queue = program->queueFor(operation);
    program->instructions.push_back(made);
    return uint32_t(program->instructions.size()) - 1;
  }
  void use(uint32_t user, uint32_t definition) {
    if (definition != kNone)
      program->uses.push_back({user, definition});
  }

  /// Of all layers of a stage, and what it has besides.
  template <typename Of> int64_t sum(size_t stage, int64_t most, Of of, int64_t besides = 0) const {
    __int128 all = besides;
    for (size_t layer = stages[stage].first; layer != stages[stage].end; ++layer)
      all += of(layer);
    return int64_t(std::min<__int128>(all, most));
  }
  Bytes bytes(size_t stage, spec::BySample spec::LayerBySamples::*what, int64_t samples) const {
    return sum(stage, limits::kBytes, [&](size_t layer) {
      const spec::BySample &size = layers[layer]->bySamples.*what;
      return __int128(size.perSample) * samples + size.fixed;
    });
  }
  Bytes staticOf(size_t stage) const {
    const auto of = [&](size_t layer) {
      const plan::Figures &own = layers[layer]->figures;
      return __int128(own[Figure::Weights]) + own[Figure::Gradients] + own[Figure::OptimizerState];
    };
    return sum(stage, limits::kBytes, of,
               spec.layers->beside[Figure::Static][0]); // no list: stages are made here
  }

  void addPass(Kind kind, size_t stage) {
    const int64_t samples = burst::samplesOf(problem.batch, stages[stage].width, program->rank);
    plan::Operation operation{.kind = kind, .stage = int32_t(stage)};
    operation.cost = sum(stage, limits::kTime, [&](size_t layer) {
      const burst::Layer &own = problem.layers[layer];
      return schedule::timeOf(kind == Kind::Forward ? own.forward : own.backward, samples);
    });
    operation.activation = bytes(stage, &spec::LayerBySamples::activation, samples);
    operation.context = bytes(stage, &spec::LayerBySamples::weightContext, samples);
    pass = add(operation);
    use(pass, std::exchange(received, kNone));
  }

  void addReshard(Payload of, size_t from, size_t to) {
    const size_t below = std::min(from, to);
    const burst::Layer &layer = problem.layers[stages[below].end - 1];
    const int32_t narrow = stages[from].width, wide = stages[to].width;
    plan::Operation operation{.kind = Kind::Reshard, .of = of, .stage = int32_t(from)};
    operation.group = set.stageGroups[narrow > wide ? from : to];
    operation.bytes = burst::reshardBytes(layer, burst::movedSamples(problem.batch, narrow, wide));
    operation.cost = burst::reshardTime(problem, layer, narrow, wide);
    const uint32_t reshard = add(operation);
    if (holds(from))
      use(reshard, pass);
    received = reshard;
  }

  void addSum(size_t stage) {
    const Bytes gradients =
        sum(stage, limits::kBytes, [&](size_t layer) { return __int128(problem.layers[layer].gradients); });
    if (!holds(stage) || stages[stage].width == 1 || gradients == 0)
      return;
    plan::Operation operation{.kind = Kind::AllReduce, .of = Payload::Gradients, .stage = int32_t(stage)};
    operation.group = set.stageGroups[stage];
    operation.layers = int32_t(stages[stage].end - stages[stage].first);
    operation.bytes = operation.end = gradients;
    operation.cost = burst::allReduceTime(problem, gradients, stages[stage].width);
    reduced[stage] = add(operation);
    use(reduced[stage], pass);
  }

  void addUpdate(size_t stage) {
    plan::Operation operation{.kind = Kind::Optimizer, .stage = int32_t(stage)};
    const auto of = [&](size_t layer) { return __int128(layers[layer]->figures[Figure::Optimizer]); };
    operation.cost = sum(stage, limits::kTime, of, spec.layers->beside[Figure::Optimizer][0]);
    use(add(operation), reduced[stage]);
  }

  const spec::Spec &spec;
  const burst::Problem &problem;
  const std::vector<const spec::Layer *> layers;
  const std::vector<Stage> stages;
  const Sums &sums;
  mlir::Location place;
  ProgramSet set;
  Program *program = nullptr;
  uint32_t pass = kNone, received = kNone; // the last; the reshard whose result the next one takes
  std::vector<uint32_t> reduced;           // the all-reduces of stages
};

} // namespace

Sums sumsAtEnd(size_t stages) {
  Sums sums(stages);
  std::iota(sums.begin(), sums.end(), size_t(0));
  return sums;
}

ProgramSet programsOf(const spec::Spec &spec, const burst::Problem &problem, std::vector<Stage> stages,
                      const Sums &sums, mlir::Location place) {
  return Builder(spec, problem, std::move(stages), sums, place).run();
}

plan::Time spanOf(const ProgramSet &set) {
  simulate::Result result;
  plan::Time span = 0;
  const Status status = simulate::span(lower(set, {.kept = false}), span, result);
  return status.ok() ? span : limits::kTime + 1;
}

} // namespace pipec::widths
