// pipe-build-schedule: from the building block to one straight-line program a rank (Controllable Memory, section 3).
#include "compiler/passes/Passes.h"
#include "compiler/passes/Programs.h"
#include "compiler/schedule/Block.h"
#include "compiler/schedule/Catalogue.h"
#include "compiler/schedule/Fill.h"

#include "mlir/IR/Builders.h"

#include <deque>

namespace pipec {
#define GEN_PASS_DEF_BUILDSCHEDULE
#include "compiler/passes/Passes.h.inc"
} // namespace pipec

using namespace mlir;
using namespace pipec;
using namespace pipec::pipe;

namespace {

/// What a pass of a stage looks like in every microbatch; nothing of it is made again in the loop.
struct Pattern {
  Location location;
  IntegerAttr stage, cost;
  SmallVector<Type, 4> results;
  unsigned room = 0; // for what comes from another rank, and for the token of the buffer of what goes to one
};

class Builder {
public:
  Builder(PipelineOp pipeline, const schedule::Problem &problem)
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
    owed.resize(problem.stages.size());
    last.resize(problem.stages.size());
    for (auto &held : last)
      held.resize(size_t(problem.microbatches));
  }

  /// The programs' ops in the order of the words.
  void build(const schedule::Words &words) {
    OpBuilder at(pipeline);
    at.setInsertionPointAfter(pipeline);
    std::vector<std::vector<int32_t>> stages = problem.stagesByRank();
    std::vector<std::vector<int32_t>> waits;
    if (pipeline.getFillWeights())
      waits = schedule::weightWaits(problem, words);
    count.resize(problem.stages.size(), {0, 0});
    findGates();
    for (int32_t rank = 0; rank != problem.ranks; ++rank)
      build(at, rank, words[size_t(rank)], stages[size_t(rank)], waits.empty() ? nullptr : &waits[size_t(rank)]);
  }

private:
  /// What later passes of a (stage, microbatch) take.
  struct Held {
    Value activation, context;
    Value output;   // for the next stage, where it is on this rank
    Value gradient; // for the stage before, where it is on this rank
    Value done;     // the token of the B
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
    if (!pipeline.getTransfers())
      return;
    gates.resize(size_t(problem.ranks));
    for (auto [rank, transfers] : llvm::enumerate(pipeline.getTransfers()->getAsRange<DenseI32ArrayAttr>()))
      for (size_t i = 0; rank < gates.size() && i < size_t(transfers.size()); i += 4)
        gates[rank].insert(std::max(transfers[i], 0));
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
  Operation *make(OperationName name, const Pattern &pattern, IntegerAttr microbatch, ArrayRef<Value> operands) {
    typename Op::Properties properties;
    properties.stage = pattern.stage;
    properties.microbatch = microbatch;
    properties.cost = pattern.cost;
    ArrayRef<Type> results = pattern.results;
    SmallVector<Type, 4> withToken;
    if (tokenWanted && (results.empty() || !isa<TokenType>(results.back()))) {
      withToken.assign(results.begin(), results.end());
      withToken.push_back(TokenType::get(context));
      results = withToken;
    }
    Operation *op =
        createOp(pattern.location, name, results, operands, pattern.room, anyValue, noAttributes, &properties);
    block->push_back(op);
    if (tokenWanted)
      lastToken = op->getResults().back();
    return op;
  }

  /// `waits`: of each letter, how many W must have completed; none where W stands in the word.
  void build(OpBuilder &at, int32_t rank, const schedule::Word &word, const std::vector<int32_t> &stages,
             const std::vector<int32_t> *waits) {
    auto optionalSize = [&](int64_t value) { return value ? at.getI64IntegerAttr(value) : IntegerAttr(); };
    auto program = at.create<ProgramOp>(
        pipeline.getLoc(), at.getStringAttr("rank" + std::to_string(rank)), at.getI32IntegerAttr(rank),
        CommunicatorAttr::get(context, pipeline.getCommunicator()), at.getDenseI32ArrayAttr(stages),
        optionalSize(problem.staticBytes[size_t(rank)]), optionalSize(problem.workspace[size_t(rank)]),
        optionalSize(problem.memoryLimit), ArrayAttr(), pipeline.getFillWeightsAttr(), pipeline.getCopiesAttr(),
        pipeline.getSlicesAttr());
    program.getEnter().emplaceBlock();
    program.getLeave().emplaceBlock();
    block = &program.getStep().emplaceBlock();

    weightTokens.clear();
    lastWeight.clear();
    const int32_t partner = problem.partnerOf(rank);
    const bool reduces = problem.globalNorm || partner >= 0;
    int32_t known = 0; // completed W, by the waits of the letters so far
    for (size_t i = 0; i != word.size(); ++i) {
      Value weight;
      if (waits && (*waits)[i] > known) {
        known = (*waits)[i];
        weight = weightTokens[size_t(known - 1)];
      }
      tokenWanted =
          (reduces && i + 1 == word.size()) || (!gates.empty() && gates[size_t(rank)].contains(int32_t(i) + 1));
      if (word[i].overlapped)
        appendPair(word[i], word[i + 1]);
      append(word[i], weight);
    }
    auto inside = OpBuilder::atBlockEnd(block);
    SmallVector<Value, 2> ready; // for every optimizer
    SmallVector<Value, 2> done{lastToken};
    if (reduces && waits)
      done = {lastInput, weightTokens.back()};
    auto reduce = [&](IntegerAttr peer, int64_t bytes, int64_t cost) {
      ready.push_back(inside.create<AllReduceOp>(pipeline.getLoc(), TokenType::get(context), done, peer,
                                                 inside.getI64IntegerAttr(bytes), inside.getI64IntegerAttr(cost)));
      done = {ready.back()};
    };
    if (partner >= 0)
      reduce(inside.getI32IntegerAttr(partner), schedule::copySumBytes(problem, rank),
             schedule::copySumTime(problem, rank));
    constexpr int64_t kNorm = 8; // bytes
    if (problem.globalNorm)
      reduce({}, kNorm, *problem.globalNorm);
    for (int32_t stage : stages) {
      SmallVector<Value, 2> operands = ready;
      if (auto weight = lastWeight.find(stage); weight != lastWeight.end())
        operands.push_back(weight->second);
      inside.create<OptimizerStepOp>(pipeline.getLoc(), operands, stage, problem.stages[size_t(stage)].optimizer);
    }
  }

  /// The header of a pair, where its F and BW come next.
  void appendPair(const schedule::Op &forward, const schedule::Op &backward) {
    OverlappedOp::Properties properties;
    properties.cost = IntegerAttr::get(IntegerType::get(context, 64), schedule::pairCost(problem, forward, backward));
    block->push_back(Operation::create(patterns[size_t(forward.stage)].forward->location, overlappedName, TypeRange(),
                                       ValueRange(), noAttributes, OpaqueProperties(&properties), BlockRange(), 0));
  }

  /// `weight`: the token of a W that must have completed, or none.
  void append(schedule::Op op, Value weight) {
    Stage &own = patterns[size_t(op.stage)];
    const int32_t j = microbatchOf(op);
    Held &held = last[size_t(op.stage)][size_t(j)];
    SmallVector<Value, 3> operands;
    switch (op.letter) {
    case schedule::Letter::F: {
      if (local(op.stage, problem.before(op.stage)))
        operands.push_back(last[size_t(op.stage - 1)][size_t(j)].output);
      if (weight)
        operands.push_back(weight);
      Operation *forward = make<ForwardOp>(forwardName, *own.forward, microbatches[size_t(j)], operands);
      held.activation = firstOf<ActivationType>(forward->getResults());
      held.context = firstOf<ContextType>(forward->getResults());
      held.output = firstOf<BufferType>(forward->getResults());
      break;
    }
    case schedule::Letter::B:
    case schedule::Letter::BW: {
      operands.push_back(held.activation);
      bool fused = op.letter == schedule::Letter::BW;
      if (fused)
        operands.push_back(held.context);
      if (local(op.stage, problem.after(op.stage)))
        operands.push_back(last[size_t(op.stage + 1)][size_t(j)].gradient);
      Operation *backward = fused ? make<BackwardOp>(backwardName, *own.backward, microbatches[size_t(j)], operands)
                                  : make<BackwardInputOp>(inputName, *own.input, microbatches[size_t(j)], operands);
      held.gradient = firstOf<BufferType>(backward->getResults());
      held.done = lastInput = firstOf<TokenType>(backward->getResults());
      break;
    }
    case schedule::Letter::W: {
      operands.push_back(held.context);
      if (pipeline.getFillWeights())
        operands.push_back(held.done);
      Operation *weights = make<BackwardWeightOp>(weightName, *own.weight, microbatches[size_t(j)], operands);
      if (pipeline.getFillWeights())
        weightTokens.push_back(lastWeight[op.stage] = weights->getResult(0));
      break;
    }
    }
  }

  /// The microbatch of the next letter of its kind, of which one is now taken.
  int32_t microbatchOf(schedule::Op op) {
    auto &[forwards, backwards] = count[size_t(op.stage)];
    std::deque<int32_t> &left = owed[size_t(op.stage)];
    if (op.letter == schedule::Letter::F)
      return forwards++;
    if (op.letter == schedule::Letter::W) {
      const int32_t j = left.front();
      left.pop_front();
      return j;
    }
    const int32_t j = problem.backwardOf(backwards++);
    if (op.letter == schedule::Letter::B)
      left.push_back(j);
    return j;
  }

  struct Stage {
    std::optional<Pattern> forward, backward, input, weight;
  };

  PipelineOp pipeline;
  const schedule::Problem &problem;
  std::vector<llvm::DenseSet<int32_t>> gates; // of a rank, how many passes stand before some transfer
  MLIRContext *context;
  OperationName forwardName, inputName, weightName, backwardName, overlappedName;
  DictionaryAttr noAttributes = DictionaryAttr::get(context);
  Value anyValue;
  std::vector<IntegerAttr> microbatches;
  std::vector<Stage> patterns;
  std::vector<std::vector<Held>> last;       // by stage and microbatch
  std::vector<std::array<int32_t, 2>> count; // of each stage's forwards and backwards so far
  std::vector<std::deque<int32_t>> owed;     // microbatches of each stage that have had their B, but no W
  // Of this rank's W on a queue of their own: all in order, and each stage's last.
  std::vector<Value> weightTokens;
  llvm::DenseMap<int32_t, Value> lastWeight;
  // What the all-reduce takes: the token of the rank's last pass, or, with W on a queue of their own, of its last B and
  // its last W.
  bool tokenWanted = false;
  Value lastToken, lastInput;
  mlir::Block *block = nullptr;
};

/// Every stage has a forward, and either a backward or both of its halves, all stages alike.
LogicalResult verifyBlock(PipelineOp pipeline, schedule::Block &block) {
  size_t stages = pipeline.getPlacement().size();
  std::vector<Operation *> forward(stages), backward(stages), weight(stages);
  bool fused = false, split = false;
  for (Operation &op : pipeline.block().getBody().front()) {
    size_t stage = size_t(stageOf(&op));
    if (stage >= stages)
      return op.emitError() << nameOf(&op) << " is not in the placement, which has " << stages
                            << (stages == 1 ? " stage" : " stages");
    fused |= isa<BackwardOp>(op);
    split |= isa<BackwardInputOp, BackwardWeightOp>(op);
    Operation *&slot = isa<ForwardOp>(op)          ? forward[stage]
                       : isa<BackwardWeightOp>(op) ? weight[stage]
                                                   : backward[stage];
    if (slot)
      return (op.emitError() << "stage " << stage << " has two "
                             << (isa<ForwardOp>(op)          ? "forwards"
                                 : isa<BackwardWeightOp>(op) ? "weight backwards"
                                                             : "backwards"))
                     .attachNote(slot->getLoc())
                 << "the other is here",
             failure();
    slot = &op;
  }
  if (fused && split)
    return pipeline.block().emitError("expected all backwards fused or all split, found both");
  if (!fused && !split)
    return pipeline.block().emitError("expected a backward for each stage, found none");
  bool hasSlots = pipeline.block().getInterval().has_value();
  block.interval = int64_t(pipeline.block().getInterval().value_or(1));
  auto slotOf = [hasSlots](Operation *op) { return hasSlots ? op->getAttrOfType<IntegerAttr>("at").getInt() : 0; };
  for (size_t s = 0; s != stages; ++s) {
    if (!forward[s] || !backward[s] || (split && !weight[s]))
      return pipeline.block().emitError()
             << "expected a forward and a backward for each stage, stage " << s << " lacks its "
             << (!forward[s]    ? "forward"
                 : !backward[s] ? "backward"
                                : "weight backward");
    block.forward.push_back(slotOf(forward[s]));
    block.backwardInput.push_back(slotOf(backward[s]));
    if (split)
      block.backwardWeight.push_back(slotOf(weight[s]));
    bool yields = bool(firstOf<BufferType>(forward[s]->getResults()));
    bool returns = bool(firstOf<BufferType>(backward[s]->getResults()));
    if (yields != (pipeline.after(int32_t(s)) >= 0))
      return forward[s]->emitError() << nameOf(forward[s])
                                     << (yields ? " yields a tensor, but there is no next stage"
                                                : " yields no tensor for the next stage");
    if (returns != (pipeline.before(int32_t(s)) >= 0))
      return backward[s]->emitError() << nameOf(backward[s])
                                      << (returns ? " yields a gradient, but there is no stage before"
                                                  : " yields no gradient for the stage before");
  }
  return success();
}

/// The block's words; what is wrong if it cannot be repeated.
std::string repeated(const schedule::Problem &problem, const schedule::Block &block, schedule::Words &words) {
  std::string wrong = schedule::check(problem, block);
  if (!wrong.empty())
    return wrong;
  words = schedule::repeat(problem, block);
  // Slots in the order of data say enough where backwards run in order.
  return problem.backwardGroup == 1 ? "" : schedule::verify(problem, words);
}

/// The words that the pipeline states; what is wrong with them.
std::string given(PipelineOp pipeline, const schedule::Problem &problem, schedule::Words &words) {
  for (auto letters : pipeline.getWords()->getAsRange<DenseI32ArrayAttr>()) {
    schedule::Word &word = words.emplace_back();
    for (int32_t letter : letters.asArrayRef()) {
      const bool overlapped = letter < 0;
      if (overlapped && (letter + 1) % 4 != 0)
        return "expected letters of at least 0 in the words, or -1 less four times the stage of an overlapped F, "
               "found " +
               std::to_string(letter);
      const int32_t code = overlapped ? -(letter + 1) : letter;
      word.push_back({code / 4, static_cast<schedule::Letter>(code % 4), overlapped});
    }
  }
  return schedule::verify(problem, words);
}

/// The words of the schedule of the pipeline's name; what is wrong if there is none or it does not fit.
std::string catalogued(PipelineOp pipeline, schedule::Problem &problem, schedule::Words &words) {
  const schedule::Entry *entry = schedule::find(pipeline.getSymName());
  if (!entry)
    return "expected an interval and slots, or the name of a known schedule, found '" + pipeline.getSymName().str() +
           "'";
  schedule::Parameters parameters;
  if (auto given = pipeline.getParameters())
    for (NamedAttribute each : *given) {
      if (auto value = dyn_cast<IntegerAttr>(each.getValue()))
        parameters.emplace(each.getName().str(), value.getInt());
      else if (auto list = dyn_cast<DenseI64ArrayAttr>(each.getValue()))
        parameters.emplace(each.getName().str(), schedule::Given(list.asArrayRef().vec()));
      else
        return "expected an integer or a list of them as parameter '" + each.getName().str() + "'";
    }
  std::string wrong = schedule::check(*entry, problem, parameters);
  if (!wrong.empty())
    return wrong;
  words = schedule::wordsOf(*entry, problem, parameters);
  problem.backwardGroup = entry->backwardGroup(problem);
  return schedule::verify(problem, words);
}

struct BuildSchedulePass : pipec::impl::BuildScheduleBase<BuildSchedulePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    PipelineOp pipeline = findPipeline(module);
    if (!pipeline)
      return signalPassFailure();
    if (!module.getOps<ProgramOp>().empty()) {
      (*module.getOps<ProgramOp>().begin()).emitError("expected no 'pipe.program' yet");
      return signalPassFailure();
    }
    schedule::Block block;
    if (failed(verifyBlock(pipeline, block)))
      return signalPassFailure();
    schedule::Problem problem = problemOf(pipeline);
    schedule::Words words;
    std::string wrong = schedule::check(problem);
    if (wrong.empty() && pipeline.getFillWeights() && problem.backward == schedule::BackwardMode::Fused)
      wrong = "fill_weights needs a split backward, found a fused one";
    if (wrong.empty())
      wrong = pipeline.block().getInterval() ? repeated(problem, block, words)
              : pipeline.getWords()          ? given(pipeline, problem, words)
                                             : catalogued(pipeline, problem, words);
    if (!wrong.empty()) {
      pipeline.block().emitError(wrong);
      return signalPassFailure();
    }
    Builder(pipeline, problem).build(words);
  }
};

} // namespace
