#include "compiler/program/WriteOps.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

/// What a pass of a stage looks like in every microbatch; nothing of it is made again in the loop.
struct Pattern {
  Location location;
  IntegerAttr stage, cost;
  SmallVector<Type, 4> results;
  unsigned room = 0; // for what comes from another rank, and for the token of the buffer of what goes to one
};

class Writer {
public:
  Writer(PipelineOp pipeline, const schedule::Problem &problem)
      : pipeline(pipeline), problem(problem), context(pipeline.getContext()),
        forwardName(ForwardOp::getOperationName(), context), inputName(BackwardInputOp::getOperationName(), context),
        weightName(BackwardWeightOp::getOperationName(), context),
        backwardName(BackwardOp::getOperationName(), context),
        overlappedName(OverlappedOp::getOperationName(), context) {
    auto i32 = IntegerType::get(context, 32);
    for (int32_t j = 0; j != problem.microbatches; ++j)
      microbatches.push_back(IntegerAttr::get(i32, j));
    patterns.resize(problem.stages.size());
    for (Operation &op : pipeline.block().getBody().front())
      addPattern(&op);
    if (problem.backward == schedule::BackwardMode::Split)
      addWholeBackwards();
    last.resize(problem.stages.size());
    for (auto &held : last)
      held.resize(size_t(problem.microbatches));
    findGates();
  }

  void write(Stream &made) {
    stream = &made;
    block = &ProgramOp(stream->program).getStep().front();
    // What is used besides data is a token.
    std::vector<bool> yieldsToken(stream->records.size());
    for (const Use &use : stream->uses)
      yieldsToken[use.definition] = true;
    const size_t rank = ProgramOp(stream->program).getRank();
    int32_t passes = 0;
    nextUse = 0;
    stream->ops.reserve(stream->records.size());
    for (uint32_t i = 0; i != stream->records.size(); ++i) {
      const plan::Kind kind = stream->kind(stream->records[i]);
      passes += plan::isCompute(kind);
      tokenWanted = yieldsToken[i] || (!gates.empty() && plan::isCompute(kind) && gates[rank].contains(passes));
      stream->ops.push_back(append(i, stream->of(stream->records[i])));
      block->push_back(stream->ops.back());
    }
  }

private:
  /// What later passes of a (stage, microbatch) take.
  struct Held {
    Value activation, context;
    Value output;   // for the next stage, where it is on this rank
    Value gradient; // for the stage before, where it is on this rank
    Value done;     // the token of the B
  };
  struct Stage {
    std::optional<Pattern> forward, backward, input, weight;
  };

  bool local(int32_t stage, int32_t other) const {
    return other >= 0 && size_t(other) < problem.rankOf.size() &&
           problem.rankOf[size_t(stage)] == problem.rankOf[size_t(other)];
  }
  bool remote(int32_t stage, int32_t other) const {
    return other >= 0 && size_t(other) < problem.rankOf.size() && !local(stage, other);
  }

  /// Passes for which transfers wait that the pipeline places behind them yield tokens.
  void findGates() {
    if (!pipeline.placesTransfers())
      return;
    gates.resize(size_t(problem.ranks));
    for (auto [rank, order] : llvm::enumerate(pipeline.getOrders()->getAsRange<OrderAttr>())) {
      int32_t passes = 0;
      for (const Action &action : order.getActions())
        if (action.what == Action::What::Pass)
          ++passes;
        else
          gates[rank].insert(passes);
    }
  }

  void addPattern(Operation *op) {
    int32_t stage = stageOf(op);
    const bool fromBefore = remote(stage, problem.before(stage)), fromAfter = remote(stage, problem.after(stage));
    auto make = [&](auto pass) {
      const bool moves = !isa<BackwardWeightOp>(op);
      Pattern pattern{pass.getLoc(), pass.getStageAttr(), pass.getCostAttr(), {}, moves ? fromBefore + fromAfter : 0u};
      for (Type type : op->getResultTypes())
        if (!isa<TokenType>(type))
          pattern.results.push_back(type);
      return pattern;
    };
    // What came over a link leaves its buffer when the pass that takes it ends.
    auto token = [&](Pattern pattern, bool taken) {
      if (taken)
        pattern.results.push_back(TokenType::get(context));
      return pattern;
    };
    auto &own = patterns[size_t(stage)];
    if (isa<ForwardOp>(op))
      anyValue = op->getResult(0);
    if (auto forward = dyn_cast<ForwardOp>(op))
      own.forward = token(make(forward), fromBefore);
    else if (auto backward = dyn_cast<BackwardOp>(op))
      own.backward = token(make(backward), fromAfter);
    else if (auto input = dyn_cast<BackwardInputOp>(op))
      own.input = token(make(input), fromAfter || pipeline.getFillWeights());
    else
      own.weight = token(make(cast<BackwardWeightOp>(op)), pipeline.getFillWeights());
  }

  /// Where backwards are split, a word may still have some whole: B and W in one.
  void addWholeBackwards() {
    for (Stage &own : patterns) {
      own.backward = own.input;
      own.backward->cost =
          IntegerAttr::get(own.input->cost.getType(), own.input->cost.getInt() + own.weight->cost.getInt());
    }
  }

  template <typename Op>
  Operation *make(OperationName name, const Pattern &pattern, int32_t microbatch, ArrayRef<Value> operands) {
    typename Op::Properties properties;
    properties.stage = pattern.stage;
    properties.microbatch = microbatches[size_t(microbatch)];
    properties.cost = pattern.cost;
    ArrayRef<Type> results = pattern.results;
    SmallVector<Type, 4> withToken;
    if (tokenWanted && (results.empty() || !isa<TokenType>(results.back()))) {
      withToken.assign(results.begin(), results.end());
      withToken.push_back(TokenType::get(context));
      results = withToken;
    }
    return createOp(pattern.location, name, results, operands, pattern.room, anyValue, noAttributes, &properties);
  }

  /// The tokens that a record uses besides its data.
  void addTokens(uint32_t record, SmallVectorImpl<Value> &operands) {
    for (; nextUse != stream->uses.size() && stream->uses[nextUse].user == record; ++nextUse)
      operands.push_back(firstOf<TokenType>(stream->ops[stream->uses[nextUse].definition]->getResults()));
  }

  Operation *append(uint32_t record, const plan::Operation &operation) {
    SmallVector<Value, 3> operands;
    auto optional = [&](bool is, int32_t value) {
      return is ? IntegerAttr::get(IntegerType::get(context, 32), value) : IntegerAttr();
    };
    switch (operation.kind) {
    case plan::Kind::Overlapped:
      return OpBuilder(context).create<OverlappedOp>(stream->origins[stream->records[record].operation].place,
                                                     uint64_t(operation.cost));
    case plan::Kind::AllReduce:
      addTokens(record, operands);
      return OpBuilder(context).create<AllReduceOp>(
          pipeline.getLoc(), TokenType::get(context), operands, optional(operation.peer >= 0, operation.peer),
          OpBuilder(context).getI64IntegerAttr(operation.bytes), OpBuilder(context).getI64IntegerAttr(operation.cost));
    case plan::Kind::Optimizer:
      addTokens(record, operands);
      return OpBuilder(context).create<OptimizerStepOp>(pipeline.getLoc(), operands, operation.stage, operation.cost);
    default:
      return appendPass(record, operation);
    }
  }

  Operation *appendPass(uint32_t record, const plan::Operation &operation) {
    Stage &own = patterns[size_t(operation.stage)];
    const int32_t stage = operation.stage, j = stream->records[record].microbatch;
    Held &held = last[size_t(stage)][size_t(j)];
    SmallVector<Value, 3> operands;
    switch (operation.kind) {
    case plan::Kind::Forward: {
      if (local(stage, problem.before(stage)))
        operands.push_back(last[size_t(stage - 1)][size_t(j)].output);
      addTokens(record, operands);
      Operation *forward = make<ForwardOp>(forwardName, *own.forward, j, operands);
      held.activation = firstOf<ActivationType>(forward->getResults());
      held.context = firstOf<ContextType>(forward->getResults());
      held.output = firstOf<BufferType>(forward->getResults());
      return forward;
    }
    case plan::Kind::BackwardWeight: {
      operands.push_back(held.context);
      if (pipeline.getFillWeights())
        operands.push_back(held.done);
      return make<BackwardWeightOp>(weightName, *own.weight, j, operands);
    }
    default: {
      const bool whole = operation.kind == plan::Kind::Backward;
      operands.push_back(held.activation);
      if (whole)
        operands.push_back(held.context);
      if (local(stage, problem.after(stage)))
        operands.push_back(last[size_t(stage + 1)][size_t(j)].gradient);
      Operation *backward = whole ? make<BackwardOp>(backwardName, *own.backward, j, operands)
                                  : make<BackwardInputOp>(inputName, *own.input, j, operands);
      held.gradient = firstOf<BufferType>(backward->getResults());
      held.done = firstOf<TokenType>(backward->getResults());
      return backward;
    }
    }
  }

  PipelineOp pipeline;
  const schedule::Problem &problem;
  std::vector<llvm::DenseSet<int32_t>> gates; // of a rank, how many passes stand before some transfer
  MLIRContext *context;
  OperationName forwardName, inputName, weightName, backwardName, overlappedName;
  DictionaryAttr noAttributes = DictionaryAttr::get(context);
  Value anyValue;
  std::vector<IntegerAttr> microbatches;
  std::vector<Stage> patterns;
  std::vector<std::vector<Held>> last; // by stage and microbatch
  // Of the program at hand.
  Stream *stream = nullptr;
  mlir::Block *block = nullptr;
  size_t nextUse = 0;
  bool tokenWanted = false; // of the pass at hand
};

} // namespace

void writeOps(PipelineOp pipeline, const schedule::Problem &problem, Streams &streams) {
  Writer writer(pipeline, problem);
  for (Stream &stream : streams.ranks)
    writer.write(stream);
}

} // namespace pipec
