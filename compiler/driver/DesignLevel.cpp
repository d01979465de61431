#include "compiler/driver/DesignLevel.h"

#include "compiler/program/Orders.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

class Writer {
public:
  Writer(const spec::Spec &spec, const Design &design, MLIRContext &context)
      : spec(spec), problem(design.problem), entry(design.entry), parameters(design.parameters), block(design.block),
        order(design.order), context(context), builder(&context) {}

  OwningOpRef<ModuleOp> run() {
    OwningOpRef<ModuleOp> module(ModuleOp::create(at(spec.schedule.mark)));
    builder.setInsertionPointToEnd(module->getBody());
    buildPipeline();
    return module;
  }

private:
  Location at(const spec::Mark &mark) { return locationOf(spec, mark, context); }

  void buildPipeline() {
    SmallVector<Attribute> links;
    for (const auto &[pair, link] : problem.links)
      links.push_back(LinkAttr::get(&context, pair.first, pair.second, link.latency, link.bandwidth));
    std::vector<int64_t> optimizer;
    for (const schedule::Stage &stage : problem.stages)
      optimizer.push_back(stage.optimizer);
    auto named = [&](StringRef key, const spec::Mark &mark) -> Location {
      return NameLoc::get(builder.getStringAttr(key), at(mark));
    };
    SmallVector<Location> places = {at(spec.schedule.mark), named("costs", spec.costs)};
    if (problem.memoryLimit)
      places.push_back(named("memory.limit", spec.memoryLimit.mark));
    const Location location = FusedLoc::get(&context, places);
    auto pipeline = builder.create<PipelineOp>(
        location, builder.getStringAttr(entry ? std::string(entry->name) : spec.schedule.name),
        builder.getDenseI32ArrayAttr(problem.rankOf), builder.getI32IntegerAttr(problem.microbatches),
        CommunicatorAttr::get(&context, static_cast<Communicator>(spec.communicator.value)),
        LinkAttr::get(&context, -1, -1, problem.link.latency, problem.link.bandwidth),
        links.empty() ? ArrayAttr() : builder.getArrayAttr(links), builder.getDenseI64ArrayAttr(optimizer),
        builder.getDenseI64ArrayAttr(problem.staticBytes), builder.getDenseI64ArrayAttr(problem.workspace),
        problem.memoryLimit ? builder.getI64IntegerAttr(problem.memoryLimit) : IntegerAttr(), parametersAttr(),
        ordersAttr(), optional(problem.backwardGroup, problem.slices),
        spec.weights.value == spec::Weights::Fill ? builder.getUnitAttr() : UnitAttr(),
        problem.globalNorm ? builder.getI64IntegerAttr(*problem.globalNorm) : IntegerAttr(),
        optional(problem.copies, 1), optional(problem.slices, 1), gradientsAttr(), overlappedAttr());
    builder.createBlock(&pipeline.getBody());
    auto blockOp = builder.create<BlockOp>(at(spec.schedule.mark),
                                           block ? builder.getI64IntegerAttr(block->interval) : IntegerAttr(),
                                           block && !entry ? builder.getUnitAttr() : UnitAttr());
    builder.createBlock(&blockOp.getBody());
    buildPasses();
  }

  /// Nothing where it is what goes without saying.
  IntegerAttr optional(int32_t value, int32_t usual) {
    return value == usual ? IntegerAttr() : builder.getI32IntegerAttr(value);
  }

  /// What the stages' copies sum; nothing where there are none.
  DenseI64ArrayAttr gradientsAttr() {
    std::vector<int64_t> gradients;
    for (const schedule::Stage &stage : problem.stages)
      gradients.push_back(stage.gradients);
    return problem.copies == 1 ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(gradients);
  }

  /// What pairs take; nothing where there are none.
  DenseI64ArrayAttr overlappedAttr() {
    std::vector<int64_t> overlapped;
    for (const schedule::Stage &stage : problem.stages)
      overlapped.push_back(stage.overlapped.value_or(-1));
    return llvm::all_of(overlapped, [](int64_t time) { return time == -1; }) ? DenseI64ArrayAttr()
                                                                             : builder.getDenseI64ArrayAttr(overlapped);
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
    using What = Action::What;
    auto of = [&each](What what, Letter letter) {
      return Action{.what = what, .letter = letter, .stage = each.stage, .microbatch = each.microbatch};
    };
    switch (each.action) {
    case schedule::Action::SendF:
      return of(What::Send, Letter::F);
    case schedule::Action::RecvF:
      return of(What::Recv, Letter::F);
    case schedule::Action::SendB:
      return of(What::Send, Letter::B);
    case schedule::Action::RecvB:
      return of(What::Recv, Letter::B);
    case schedule::Action::WaitSendF:
      return of(What::Wait, Letter::F);
    case schedule::Action::WaitSendB:
      return of(What::Wait, Letter::B);
    default:
      llvm_unreachable("a row has passes, transfers and waits for sends");
    }
  }

  /// A pass's start slot; none where the schedule is no block.
  IntegerAttr slot(std::vector<int64_t> schedule::Block::*slots, size_t stage) {
    return block ? builder.getI64IntegerAttr(((*block).*slots)[stage]) : IntegerAttr();
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
      results.push_back(ActivationType::get(&context, stage.activation));
      results.push_back(ContextType::get(&context, stage.context));
      forwards.push_back(builder.create<ForwardOp>(at(spec.forward.markOf(ofCopy(s))), results,
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
      if (problem.before(int32_t(s)) >= 0)
        results.push_back(BufferType::get(builder.getContext(), problem.stages[s - 1].boundary));
      Operation *backward = nullptr;
      if (problem.backward == schedule::BackwardMode::Fused) {
        operands.push_back(context);
        if (flowing)
          operands.push_back(flowing);
        backward =
            builder.create<BackwardOp>(at(backwardMarks.markOf(ofCopy(s))), results, operands, i32(s), IntegerAttr(),
                                       slot(&schedule::Block::backwardInput, s), i64(stage.backward));
      } else {
        if (flowing)
          operands.push_back(flowing);
        backward = builder.create<BackwardInputOp>(at(backwardMarks.markOf(ofCopy(s))), results, operands, i32(s),
                                                   IntegerAttr(), slot(&schedule::Block::backwardInput, s),
                                                   i64(stage.backwardInput));
        builder.create<BackwardWeightOp>(at(spec.backwardWeight->markOf(ofCopy(s))), TypeRange(), context, i32(s),
                                         IntegerAttr(), slot(&schedule::Block::backwardWeight, s),
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

} // namespace pipec
