#include "compiler/program/WordStreams.h"

#include "compiler/schedule/evaluate/Fill.h"

#include <array>

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

/// The microbatch of each letter: those of one stage and kind are taken in order, W as B left them.
class Microbatches {
public:
  explicit Microbatches(const schedule::Problem &problem) : problem(problem), stages(problem.stages.size()) {}

  int32_t next(schedule::Op op) {
    Stage &stage = stages[size_t(op.stage)];
    if (op.letter == schedule::Letter::F)
      return stage.forwards++;
    if (op.letter == schedule::Letter::W)
      return stage.owed[stage.paid++];
    const int32_t j = problem.backwardOf(stage.backwards++);
    if (op.letter == schedule::Letter::B)
      stage.owed.push_back(j);
    return j;
  }

private:
  struct Stage {
    int32_t forwards = 0, backwards = 0;
    std::vector<int32_t> owed; // that have had their B
    size_t paid = 0;           // of them, that have had their W
  };
  const schedule::Problem &problem;
  std::vector<Stage> stages;
};

constexpr std::array<plan::Kind, 4> kKinds = {plan::Kind::Forward, plan::Kind::BackwardInput,
                                              plan::Kind::BackwardWeight, plan::Kind::Backward}; // of letters

class StreamBuilder {
public:
  StreamBuilder(PipelineOp pipeline, const schedule::Problem &problem)
      : pipeline(pipeline), problem(problem), fills(pipeline.getFillWeights()), microbatches(problem),
        passes(problem.stages.size()) {
    for (Operation &op : pipeline.block().getBody().front()) {
      auto &own = passes[size_t(stageOf(&op))];
      own[size_t(isa<ForwardOp>(op)          ? schedule::Letter::F
                 : isa<BackwardInputOp>(op)  ? schedule::Letter::B
                 : isa<BackwardWeightOp>(op) ? schedule::Letter::W
                                             : schedule::Letter::BW)] = &op;
    }
    // Where backwards are split, a word may still have some whole: B and W in one.
    for (auto &own : passes)
      if (Operation *&whole = own[size_t(schedule::Letter::BW)]; !whole)
        whole = own[size_t(schedule::Letter::B)];
  }

  /// `waits`: of each letter, how many W must have completed; none where W stands in the word.
  void build(const schedule::Word &word, const std::vector<int32_t> &held, const std::vector<int32_t> *waits,
             Stream &made) {
    stream = &made;
    stream->records.reserve(word.size() + held.size() + 2);
    known.assign(problem.stages.size() * kKinds.size(), kNone);
    weights.clear();
    inputs.clear();
    lastWeight.clear();
    int32_t awaited = 0; // completed W, by the waits of the letters so far
    for (size_t i = 0; i != word.size(); ++i) {
      if (word[i].overlapped)
        add({.kind = plan::Kind::Overlapped,
             .stage = word[i].stage,
             .cost = schedule::pairCost(problem, word[i], word[i + 1])},
            passes[size_t(word[i].stage)].front()->getLoc());
      addPass(word[i]);
      if (waits && (*waits)[i] > awaited) {
        awaited = (*waits)[i];
        use(weights[size_t(awaited - 1)]);
      }
    }
    addEnd(held);
  }

private:
  uint32_t last() const { return uint32_t(stream->records.size()) - 1; }
  void use(uint32_t definition) { stream->uses.push_back({last(), definition}); }

  /// A record of an operation that few others share.
  void add(const plan::Operation &operation, Location place, int64_t yields = -1) {
    const uint32_t index = stream->indexOf(operation);
    if (index == stream->origins.size())
      stream->origins.push_back({place, yields});
    stream->records.push_back({index});
  }

  void addPass(schedule::Op op) {
    uint32_t &index = known[size_t(op.stage) * kKinds.size() + size_t(op.letter)];
    const int32_t microbatch = microbatches.next(op);
    if (index == kNone) {
      addFirst(op);
      index = stream->records.back().operation;
      stream->records.back().microbatch = microbatch;
    } else {
      stream->records.push_back({index, microbatch});
    }
    if (!fills)
      return;
    // On a queue of its own a W comes behind its B, and the optimizer behind each stage's last.
    if (op.letter == schedule::Letter::W) {
      stream->records.back().in = inputs.at({op.stage, microbatch});
      weights.push_back(lastWeight[op.stage] = last());
    } else if (op.letter != schedule::Letter::F) {
      inputs[{op.stage, microbatch}] = lastInput = last();
    }
  }

  /// The first pass of its stage and kind.
  void addFirst(schedule::Op op) {
    const schedule::Stage &stage = problem.stages[size_t(op.stage)];
    Operation *pass = passes[size_t(op.stage)][size_t(op.letter)];
    plan::Operation made;
    made.kind = kKinds[size_t(op.letter)];
    made.stage = op.stage;
    made.cost = schedule::costOf(stage, op.letter);
    made.activation = op.letter == schedule::Letter::W ? 0 : stage.activation;
    made.context = op.letter == schedule::Letter::B ? 0 : stage.context;
    Value tensor = firstOf<BufferType>(pass->getResults());
    add(made, pass->getLoc(), tensor ? cast<BufferType>(tensor.getType()).getBytes() : -1);
  }

  /// The rank's collectives and its stages' optimizer steps.
  void addEnd(const std::vector<int32_t> &held) {
    const auto rank = int32_t(ProgramOp(stream->program).getRank());
    std::vector<uint32_t> ready; // for every optimizer
    auto reduce = [&](int32_t peer, int64_t bytes, int64_t cost) {
      std::vector<uint32_t> done{last()};
      if (ready.empty() && fills)
        done = {lastInput, weights.back()};
      add({.kind = plan::Kind::AllReduce, .stage = held.front(), .peer = peer, .cost = cost, .bytes = bytes},
          pipeline.getLoc());
      for (const uint32_t each : done)
        use(each);
      ready.push_back(last());
    };
    if (const int32_t partner = problem.partnerOf(rank); partner >= 0)
      reduce(partner, schedule::copySumBytes(problem, rank), schedule::copySumTime(problem, rank));
    constexpr int64_t kNorm = 8; // bytes
    if (problem.globalNorm)
      reduce(-1, kNorm, *problem.globalNorm);
    for (const int32_t stage : held) {
      add({.kind = plan::Kind::Optimizer, .stage = stage, .cost = problem.stages[size_t(stage)].optimizer},
          pipeline.getLoc());
      for (const uint32_t each : ready)
        use(each);
      if (auto weight = lastWeight.find(stage); weight != lastWeight.end())
        use(weight->second);
    }
  }

  PipelineOp pipeline;
  const schedule::Problem &problem;
  const bool fills;
  Microbatches microbatches;
  std::vector<std::array<Operation *, 4>> passes; // of the block, by stage and letter
  // Of the rank at hand.
  Stream *stream = nullptr;
  std::vector<uint32_t> known; // operations, by stage and letter
  // Of its W on a queue of their own, records: all in order, and each stage's last; the B of each; and the last B.
  std::vector<uint32_t> weights;
  llvm::DenseMap<int32_t, uint32_t> lastWeight;
  llvm::DenseMap<std::pair<int32_t, int32_t>, uint32_t> inputs; // by stage and microbatch
  uint32_t lastInput = kNone;
};

} // namespace

void streamWords(PipelineOp pipeline, const schedule::Problem &problem, const schedule::Words &words,
                 Streams &streams) {
  const std::vector<std::vector<int32_t>> stages = problem.stagesByRank();
  std::vector<std::vector<int32_t>> waits;
  if (pipeline.getFillWeights())
    waits = schedule::weightWaits(problem, words);
  StreamBuilder builder(pipeline, problem);
  for (size_t rank = 0; rank != streams.ranks.size(); ++rank)
    builder.build(words[rank], stages[rank], waits.empty() ? nullptr : &waits[rank], streams.ranks[rank]);
}

} // namespace pipec
