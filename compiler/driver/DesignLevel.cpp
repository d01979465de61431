#include "compiler/driver/DesignLevel.h"

#include "compiler/driver/CompileJobs.h"
#include "compiler/program/JobsAttrs.h"
#include "compiler/program/Orders.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace pipec {

using plan::Figure;
using namespace pipe;

namespace {

class Writer {
public:
  Writer(const spec::Spec &spec, const Design &design, MLIRContext &context)
      : spec(spec), problem(design.problem), entry(design.entry), parameters(design.parameters), block(design.block),
        order(design.order), shards(design.shards), context(context), builder(&context) {}

  OwningOpRef<ModuleOp> run() {
    OwningOpRef<ModuleOp> module(ModuleOp::create(at(spec.schedule.mark)));
    builder.setInsertionPointToEnd(module->getBody());
    return succeeded(buildPipeline()) && succeeded(verify(*module)) ? std::move(module) : OwningOpRef<ModuleOp>();
  }

private:
  Location at(const spec::Mark &mark) { return locationOf(spec, mark, context); }

  LogicalResult buildPipeline() {
    auto named = [&](StringRef key, const spec::Mark &mark) -> Location {
      return NameLoc::get(builder.getStringAttr(key), at(mark));
    };
    SmallVector<Location> places = {at(spec.schedule.mark), named("costs", spec.costs)};
    if (problem.memoryLimit)
      places.push_back(named("memory.limit", spec.memoryLimit.mark));
    if (!spec.jobs.work.empty())
      llvm::append_range(places, placesOfJobs(spec, context));
    const Location location = FusedLoc::get(&context, places);
    const ProblemAttr made = problemAttr(location);
    if (!made)
      return failure();
    auto pipeline = builder.create<PipelineOp>(
        location, builder.getStringAttr(entry ? std::string(entry->name) : spec.schedule.name), made, ordersAttr(),
        parametersAttr());
    if (shards)
      pipeline.setShardsAttr(attributeOf(*shards, context));
    if (!spec.jobs.work.empty())
      pipeline.setJobsAttr(attributeOf(jobsOf(spec), context));
    builder.createBlock(&pipeline.getBody());
    auto blockOp = builder.create<BlockOp>(at(spec.schedule.mark),
                                           block ? builder.getI64IntegerAttr(block->interval) : IntegerAttr(),
                                           block && !entry ? builder.getUnitAttr() : UnitAttr());
    builder.createBlock(&blockOp.getBody());
    buildPasses();
    return success();
  }

  /// Null after an error. What is as usual is left out.
  ProblemAttr problemAttr(Location location) {
    const LinkAttr link = problem.link.latency == 0 && problem.link.bandwidth == 0
                              ? LinkAttr()
                              : LinkAttr::get(&context, -1, -1, problem.link.latency, problem.link.bandwidth);
    SmallVector<Attribute> links;
    for (const auto &[pair, each] : problem.links)
      links.push_back(LinkAttr::get(&context, pair.first, pair.second, each.latency, each.bandwidth));
    SmallVector<Attribute> shared;
    for (const schedule::SharedWeight &weight : problem.shared)
      shared.push_back(SharedWeightAttr::get(&context, builder.getDenseI32ArrayAttr(weight.layers),
                                             builder.getDenseI32ArrayAttr(weight.stages), weight.gradients));
    auto byStage = [&](auto of) {
      std::vector<int64_t> values;
      for (const schedule::Stage &stage : problem.stages)
        values.push_back(of(stage));
      return values;
    };
    return ProblemAttr::getChecked(
        [&] { return emitError(location); }, &context, builder.getDenseI32ArrayAttr(problem.rankOf),
        problem.microbatches, problem.copies, problem.slices,
        problem.backwardGroup == problem.slices ? std::optional<int32_t>() : problem.backwardGroup,
        static_cast<Communicator>(spec.communicator.value),
        spec.weights.value == spec::Weights::Fill ? Weights::Fill : Weights::Ordered,
        static_cast<RingSizes>(spec.rings.value), link, links.empty() ? ArrayAttr() : builder.getArrayAttr(links),
        listOf(byStage([](const schedule::Stage &stage) { return stage.optimizer; })),
        listOf(byStage([&](const schedule::Stage &stage) { return problem.copies == 1 ? 0 : stage.gradients; })),
        problem.backward == schedule::BackwardMode::Fused ? DenseI64ArrayAttr() : wholeOf(),
        listOf(byStage([](const schedule::Stage &stage) { return stage.overlapped.value_or(-1); }), -1),
        listOf(problem.staticBytes), listOf(problem.workspace), listOf(limits()), problem.globalNorm,
        shared.empty() ? ArrayAttr() : builder.getArrayAttr(shared));
  }

  /// What whole backwards of a split problem take; nothing where that is what B and W take.
  DenseI64ArrayAttr wholeOf() {
    std::vector<int64_t> values;
    bool usual = true;
    for (const schedule::Stage &stage : problem.stages) {
      values.push_back(schedule::ownCost(stage, schedule::Letter::BW));
      usual &= stage.backward == stage.backwardInput + stage.backwardWeight;
    }
    return usual ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(values);
  }

  /// The memory limit of each rank; 0: none.
  std::vector<int64_t> limits() const {
    std::vector<int64_t> byRank;
    for (int32_t rank = 0; rank != problem.ranks; ++rank)
      byRank.push_back(problem.limitOf(rank));
    return byRank;
  }

  /// Nothing where all are as usual.
  DenseI64ArrayAttr listOf(ArrayRef<int64_t> values, int64_t usual = 0) {
    return llvm::all_of(values, [usual](int64_t value) { return value == usual; })
               ? DenseI64ArrayAttr()
               : builder.getDenseI64ArrayAttr(values);
  }

  DictionaryAttr parametersAttr() {
    SmallVector<NamedAttribute> attributes;
    for (const auto &[name, value] : parameters)
      attributes.push_back(
          builder.getNamedAttr(name, value.list ? Attribute(builder.getDenseI64ArrayAttr(value.values))
                                                : Attribute(builder.getI64IntegerAttr(value.values.front()))));
    return attributes.empty() ? DictionaryAttr() : builder.getDictionaryAttr(attributes);
  }

  ArrayAttr ordersAttr() {
    if (!order)
      return {};
    SmallVector<Attribute> orders;
    for (size_t rank = 0; rank != order->words.size(); ++rank)
      orders.push_back(OrderAttr::get(&context, order->rows.empty() ? actionsOf(order->words[rank])
                                                                    : rowOf(order->words[rank], order->rows[rank])));
    return builder.getArrayAttr(orders);
  }

  /// Of a row of an order file that places its transfers and its waits for them; its passes are the word's.
  static std::vector<Action> rowOf(const schedule::Word &word, const std::vector<schedule::RowAction> &row) {
    const std::vector<Action> passes = actionsOf(word);
    auto nextPass = passes.begin();
    std::vector<Action> actions;
    for (const schedule::RowAction &each : row)
      actions.push_back(schedule::isPass(each.action) ? *nextPass++ : transferOf(each));
    return actions;
  }

  static Action transferOf(const schedule::RowAction &each) {
    Action action{.stage = each.stage, .microbatch = each.microbatch};
    action.kind =
        schedule::isSend(each.action) || schedule::isWaitSend(each.action) ? plan::Kind::Send : plan::Kind::Recv;
    const bool forward = llvm::is_contained(
        {schedule::Action::SendF, schedule::Action::RecvF, schedule::Action::WaitSendF}, each.action);
    action.of = forward ? plan::Payload::Forward : plan::Payload::Backward;
    action.waits = schedule::isWaitSend(each.action);
    return action;
  }

  /// A pass's start slot; none where the schedule is no block.
  IntegerAttr slot(std::vector<int64_t> schedule::Block::*slots, size_t stage) {
    return block ? builder.getI64IntegerAttr(((*block).*slots)[stage]) : IntegerAttr();
  }

  /// What its backward needs.
  SmallVector<Type, 2> heldFor(const schedule::Stage &stage) {
    return {ActivationType::get(&context, stage.activation), ContextType::get(&context, stage.context)};
  }

  /// The number that a stage has in the spec.
  size_t ofCopy(size_t stage) const { return stage % size_t(problem.stagesOfCopy()); }

  void buildPasses() {
    size_t stages = problem.stages.size();
    auto i32 = [&](size_t value) { return builder.getI32IntegerAttr(int32_t(value)); };
    auto i64 = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
    std::vector<ForwardOp> forwards;
    Value flowing;
    for (size_t s = 0; s != stages; ++s) {
      const schedule::Stage &stage = problem.stages[s];
      SmallVector<Type, 3> results;
      if (problem.after(int32_t(s)) >= 0)
        results.push_back(BufferType::get(&context, stage.boundary));
      if (stage.input)
        results.push_back(InputType::get(&context, *stage.input));
      else
        llvm::append_range(results, heldFor(stage));
      forwards.push_back(builder.create<ForwardOp>(at(spec[Figure::Forward].markOf(ofCopy(s))), results,
                                                   flowing ? ValueRange(flowing) : ValueRange(), i32(s), IntegerAttr(),
                                                   slot(&schedule::Block::forward, s), i64(stage.forward)));
      flowing = firstOf<BufferType>(forwards.back().getOutputs());
    }
    const spec::PerStage &backwardMarks =
        spec.has(Figure::Backward) ? spec[Figure::Backward] : spec[Figure::BackwardInput];
    flowing = nullptr;
    for (size_t s = stages; s-- != 0;) {
      const schedule::Stage &stage = problem.stages[s];
      Operation *keeper = forwards[s];
      if (stage.input)
        keeper = builder.create<RecomputeOp>(
            at(spec.recomputed.stages.mark), heldFor(stage), ValueRange(firstOf<InputType>(forwards[s].getOutputs())),
            i32(s), IntegerAttr(), IntegerAttr(), i64(schedule::ownCost(stage, schedule::Letter::R)));
      SmallVector<Value, 3> operands{firstOf<ActivationType>(keeper->getResults())};
      Value held = firstOf<ContextType>(keeper->getResults());
      SmallVector<Type, 2> results;
      if (problem.before(int32_t(s)) >= 0)
        results.push_back(BufferType::get(builder.getContext(), problem.stages[s - 1].gradientBack()));
      Operation *backward = nullptr;
      if (problem.backward == schedule::BackwardMode::Fused) {
        operands.push_back(held);
        if (flowing)
          operands.push_back(flowing);
        backward = builder.create<BackwardOp>(at(backwardMarks.markOf(ofCopy(s))), results, operands, i32(s),
                                              IntegerAttr(), slot(&schedule::Block::backwardInput, s),
                                              i64(schedule::ownCost(stage, schedule::Letter::BW)));
      } else {
        if (flowing)
          operands.push_back(flowing);
        if (stage.backwardContext != 0)
          results.push_back(ContextType::get(&context, stage.backwardContext));
        backward = builder.create<BackwardInputOp>(at(backwardMarks.markOf(ofCopy(s))), results, operands, i32(s),
                                                   IntegerAttr(), slot(&schedule::Block::backwardInput, s),
                                                   i64(schedule::ownCost(stage, schedule::Letter::B)));
        SmallVector<Value, 2> contexts{held};
        if (Value more = firstOf<ContextType>(backward->getResults()))
          contexts.push_back(more);
        builder.create<BackwardWeightOp>(at(spec[Figure::BackwardWeight].markOf(ofCopy(s))), TypeRange(), contexts,
                                         i32(s), IntegerAttr(), slot(&schedule::Block::backwardWeight, s),
                                         i64(stage.backwardWeight));
      }
      flowing = firstOf<BufferType>(backward->getResults());
    }
  }

  const spec::Spec &spec;
  const schedule::Problem &problem;
  const schedule::Entry *entry;
  const schedule::Parameters &parameters;
  const std::optional<schedule::Block> &block;
  const std::optional<schedule::Order> &order;
  const std::optional<Shards> &shards;
  MLIRContext &context;
  OpBuilder builder;
};

} // namespace

Location locationOf(const spec::Spec &spec, const spec::Mark &mark, MLIRContext &context) {
  return FileLineColLoc::get(&context, spec.sources[size_t(mark.source)], unsigned(mark.line), unsigned(mark.column));
}

OwningOpRef<ModuleOp> designLevel(const spec::Spec &spec, const Design &design, MLIRContext &context) {
  return Writer(spec, design, context).run();
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo(false));
  stream << "\n";
  return text;
}

} // namespace pipec
