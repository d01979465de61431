#include "compiler/passes/FromSpec.h"

#include "compiler/schedule/Catalogue.h"
#include "compiler/schedule/Problem.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

class Import {
public:
  Import(const spec::Spec &spec, MLIRContext &context) : spec(spec), context(context), builder(&context) {}

  OwningOpRef<ModuleOp> run() {
    entry = schedule::find(spec.schedule.name);
    if (!entry)
      return unknownSchedule(), nullptr;
    if (failed(placeStages()) || failed(chooseBackward()))
      return nullptr;
    fillProblem();
    if (failed(readParameters()))
      return nullptr;
    std::string wrong = schedule::check(problem);
    if (wrong.empty())
      wrong = schedule::check(*entry, problem, parameters);
    if (!wrong.empty())
      return error(spec.schedule.mark) << wrong, nullptr;
    if (entry->block)
      block = entry->block(problem);
    OwningOpRef<ModuleOp> module(ModuleOp::create(at(spec.schedule.mark)));
    builder.setInsertionPointToEnd(module->getBody());
    buildPipeline();
    return module;
  }

private:
  Location at(const spec::Mark &mark) {
    return FileLineColLoc::get(&context, spec.sources[size_t(mark.source)], unsigned(mark.line), unsigned(mark.column));
  }
  InFlightDiagnostic error(const spec::Mark &mark) { return emitError(at(mark)); }

  void unknownSchedule() {
    auto diagnostic = error(spec.schedule.mark) << "unknown schedule '" << spec.schedule.name << "'";
    if (auto near = schedule::nearest(spec.schedule.name); !near.empty())
      diagnostic << ", did you mean '" << near << "'?";
    std::string known;
    for (const schedule::Entry &each : schedule::catalogue())
      known += (known.empty() ? "" : ", ") + std::string(each.name);
    diagnostic.attachNote() << "known schedules: " << known;
  }

  /// A schedule fixes its placement and chunks; the spec may repeat but not contradict them.
  LogicalResult placeStages() {
    int32_t ranks = spec.ranks.value;
    int32_t perRank = entry->stagesPerRank ? entry->stagesPerRank : spec.stagesPerRank ? spec.stagesPerRank->value : 1;
    if (spec.stagesPerRank && spec.stagesPerRank->value != perRank)
      return error(spec.stagesPerRank->mark) << "schedule '" << entry->name << "' has " << perRank
                                             << " stage a rank, found stages_per_rank: " << spec.stagesPerRank->value,
             failure();
    if (spec.stages != ranks * perRank)
      return error(spec.placement ? spec.placement->mark : spec.pipeline)
                 << "schedule '" << entry->name << "' has " << perRank << " stage a rank, " << ranks * perRank
                 << " in all, found " << spec.stages,
             failure();
    problem.ranks = ranks;
    for (int32_t s = 0; s != spec.stages; ++s)
      problem.rankOf.push_back(s % ranks);
    if (!spec.placement || spec.placement->kind == spec::PlacementKind::Loop)
      return success();
    bool same = spec.placement->kind == spec::PlacementKind::List;
    for (size_t rank = 0; same && rank != spec.placement->stages.size(); ++rank)
      for (int32_t stage : spec.placement->stages[rank])
        same = same && problem.rankOf[size_t(stage)] == int32_t(rank);
    if (!same)
      return error(spec.placement->mark) << "schedule '" << entry->name
                                         << "' places stages in a loop (stage s on rank s mod " << ranks
                                         << "), found another placement",
             failure();
    return success();
  }

  LogicalResult chooseBackward() {
    problem.backward = entry->defaultBackward;
    if (spec.backwardMode)
      problem.backward = spec.backwardMode->value == spec::Backward::Fused ? schedule::BackwardMode::Fused
                                                                           : schedule::BackwardMode::Split;
    bool fused = problem.backward == schedule::BackwardMode::Fused;
    if (fused ? !entry->allowsFused : !entry->allowsSplit)
      return error(spec.backwardMode->mark)
                 << "schedule '" << entry->name << "' does not have a " << (fused ? "fused" : "split") << " backward",
             failure();
    if (!fused && !spec.backwardInput)
      return error(spec.backward->mark)
                 << "a split backward needs costs.backward_input and costs.backward_weight, found "
                    "costs.backward",
             failure();
    return success();
  }

  LogicalResult readParameters() {
    for (const auto &[name, parameter] : spec.schedule.parameters) {
      int64_t value = 0;
      if (parameter.list || StringRef(parameter.values.front()).getAsInteger(10, value))
        return error(parameter.mark) << "expected an integer as '" << name << "' of schedule '" << entry->name << "'",
               failure();
      parameters.emplace(name, value);
      std::string wrong = schedule::check(*entry, problem, {{name, value}});
      if (!wrong.empty())
        return error(parameter.mark) << wrong, failure();
    }
    return success();
  }

  void fillProblem() {
    problem.microbatches = spec.microbatches.value;
    problem.link = {spec.link.latency, spec.link.bandwidth};
    for (const spec::LinkException &link : spec.links)
      problem.links[{link.from, link.to}] = {link.link.latency, link.link.bandwidth};
    problem.staticBytes.assign(size_t(problem.ranks), 0);
    problem.workspace.assign(size_t(problem.ranks), spec.workspace.value);
    problem.memoryLimit = spec.memoryLimit.value;
    for (size_t s = 0; s != size_t(spec.stages); ++s) {
      schedule::Stage &stage = problem.stages.emplace_back();
      stage.forward = spec.forward[s];
      if (spec.backwardInput) {
        stage.backwardInput = (*spec.backwardInput)[s];
        stage.backwardWeight = (*spec.backwardWeight)[s];
      }
      stage.backward = spec.backward ? (*spec.backward)[s] : stage.backwardInput + stage.backwardWeight;
      stage.optimizer = spec.optimizer[s];
      stage.boundary = s + 1 == size_t(spec.stages) ? 0 : spec.boundary[s];
      stage.activation = spec.activation[s];
      stage.context = spec.weightContext[s];
      problem.staticBytes[size_t(problem.rankOf[s])] += spec.staticBytes[s];
    }
  }

  void buildPipeline() {
    SmallVector<Attribute> links;
    for (const auto &[pair, link] : problem.links)
      links.push_back(LinkAttr::get(&context, pair.first, pair.second, link.latency, link.bandwidth));
    std::vector<int64_t> optimizer;
    for (const schedule::Stage &stage : problem.stages)
      optimizer.push_back(stage.optimizer);
    Location location = at(spec.schedule.mark);
    if (problem.memoryLimit)
      location = FusedLoc::get(
          &context, {location, NameLoc::get(builder.getStringAttr("memory.limit"), at(spec.memoryLimit.mark))});
    auto pipeline = builder.create<PipelineOp>(
        location, builder.getStringAttr(entry->name), builder.getDenseI32ArrayAttr(problem.rankOf),
        builder.getI32IntegerAttr(problem.microbatches),
        CommunicatorAttr::get(&context, static_cast<Communicator>(spec.communicator.value)),
        LinkAttr::get(&context, -1, -1, problem.link.latency, problem.link.bandwidth),
        links.empty() ? ArrayAttr() : builder.getArrayAttr(links), builder.getDenseI64ArrayAttr(optimizer),
        builder.getDenseI64ArrayAttr(problem.staticBytes), builder.getDenseI64ArrayAttr(problem.workspace),
        problem.memoryLimit ? builder.getI64IntegerAttr(problem.memoryLimit) : IntegerAttr(), parametersAttr());
    builder.createBlock(&pipeline.getBody());
    auto blockOp = builder.create<BlockOp>(at(spec.schedule.mark),
                                           block ? builder.getI64IntegerAttr(block->interval) : IntegerAttr());
    builder.createBlock(&blockOp.getBody());
    buildPasses();
  }

  DictionaryAttr parametersAttr() {
    SmallVector<NamedAttribute> attributes;
    for (const auto &[name, value] : parameters)
      attributes.push_back(builder.getNamedAttr(name, builder.getI64IntegerAttr(value)));
    return attributes.empty() ? DictionaryAttr() : builder.getDictionaryAttr(attributes);
  }

  /// A pass's start slot; none where the schedule is no block.
  IntegerAttr slot(std::vector<int64_t> schedule::Block::*slots, size_t stage) {
    return block ? builder.getI64IntegerAttr(((*block).*slots)[stage]) : IntegerAttr();
  }

  void buildPasses() {
    size_t stages = problem.stages.size();
    auto i32 = [&](size_t value) { return builder.getI32IntegerAttr(int32_t(value)); };
    auto i64 = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
    std::vector<ForwardOp> forwards;
    Value flowing;
    for (size_t s = 0; s != stages; ++s) {
      const schedule::Stage &stage = problem.stages[s];
      SmallVector<Type, 3> results;
      if (s + 1 != stages)
        results.push_back(BufferType::get(&context, stage.boundary));
      results.push_back(ActivationType::get(&context, stage.activation));
      results.push_back(ContextType::get(&context, stage.context));
      forwards.push_back(builder.create<ForwardOp>(at(spec.forward.markOf(s)), results,
                                                   flowing ? ValueRange(flowing) : ValueRange(), i32(s), IntegerAttr(),
                                                   slot(&schedule::Block::forward, s), i64(stage.forward)));
      flowing = firstOf<BufferType>(forwards.back().getOutputs());
    }
    const spec::PerStage &backwardMarks = spec.backward ? *spec.backward : *spec.backwardInput;
    flowing = nullptr;
    for (size_t s = stages; s-- != 0;) {
      const schedule::Stage &stage = problem.stages[s];
      SmallVector<Value, 3> operands{firstOf<ActivationType>(forwards[s].getOutputs())};
      Value context = firstOf<ContextType>(forwards[s].getOutputs());
      SmallVector<Type, 1> results;
      if (s != 0)
        results.push_back(BufferType::get(builder.getContext(), problem.stages[s - 1].boundary));
      Operation *backward = nullptr;
      if (problem.backward == schedule::BackwardMode::Fused) {
        operands.push_back(context);
        if (flowing)
          operands.push_back(flowing);
        backward = builder.create<BackwardOp>(at(backwardMarks.markOf(s)), results, operands, i32(s), IntegerAttr(),
                                              slot(&schedule::Block::backwardInput, s), i64(stage.backward));
      } else {
        if (flowing)
          operands.push_back(flowing);
        backward =
            builder.create<BackwardInputOp>(at(backwardMarks.markOf(s)), results, operands, i32(s), IntegerAttr(),
                                            slot(&schedule::Block::backwardInput, s), i64(stage.backwardInput));
        builder.create<BackwardWeightOp>(at(spec.backwardWeight->markOf(s)), TypeRange(), context, i32(s),
                                         IntegerAttr(), slot(&schedule::Block::backwardWeight, s),
                                         i64(stage.backwardWeight));
      }
      flowing = firstOf<BufferType>(backward->getResults());
    }
  }

  const spec::Spec &spec;
  MLIRContext &context;
  OpBuilder builder;
  const schedule::Entry *entry = nullptr;
  schedule::Problem problem;
  schedule::Parameters parameters;
  std::optional<schedule::Block> block;
};

} // namespace

OwningOpRef<ModuleOp> fromSpec(const spec::Spec &spec, MLIRContext &context) {
  context.loadDialect<PipeDialect>();
  return Import(spec, context).run();
}

} // namespace pipec
