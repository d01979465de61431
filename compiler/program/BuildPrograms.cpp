#include "compiler/program/BuildPrograms.h"

#include "compiler/schedule/evaluate/Fill.h"

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

/// Gives an operation of a rank the time that it takes by the problem. That of a pair's header depends on both passes.
void setTimes(const schedule::Problem &problem, int32_t rank, plan::Operation &operation) {
  const plan::Kind kind = operation.kind;
  if (plan::isTransfer(kind)) {
    const bool sends = plan::sends(kind);
    const schedule::Link &link = problem.linkBetween(sends ? rank : operation.peer, sends ? operation.peer : rank);
    operation.cost = schedule::wireTime(operation.bytes, link.bandwidth);
    operation.latency = link.latency;
  } else if (kind == plan::Kind::Optimizer) {
    operation.cost = problem.stages[size_t(operation.stage)].optimizer;
  } else if (kind == plan::Kind::AllReduce) {
    operation.cost = plan::isOfShared(operation)
                         ? schedule::sharedSumTime(problem, problem.shared[size_t(operation.firstLayer)])
                     : operation.of == plan::Payload::Norm ? problem.globalNorm.value_or(0)
                                                           : schedule::copySumTime(problem, rank);
  } else if (!plan::isHeader(kind)) {
    operation.cost = schedule::ownCost(problem.stages[size_t(operation.stage)], schedule::letterOf(kind));
  }
}

/// Counts the microbatches of a word, whose letters name none. The F of a stage take them in order. Backwards take them
/// in the order of their groups, and W in the order of the B before them.
class Microbatches {
public:
  explicit Microbatches(const schedule::Problem &problem) : problem(problem), stages(problem.stages.size()) {}

  int32_t next(schedule::Op op) {
    Stage &stage = stages[size_t(op.stage)];
    if (op.letter == schedule::Letter::F)
      return stage.forwards++;
    if (op.letter == schedule::Letter::R)
      return problem.backwardOf(stage.backwards);
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
    std::vector<int32_t> owed; // microbatches whose B has run, in its order
    size_t paid = 0;           // how many of these have had their W
  };
  const schedule::Problem &problem;
  std::vector<Stage> stages;
};

class Builder {
public:
  Builder(const schedule::Problem &problem, const PassPlaces &places, const BuildOptions &options, ProgramSet &set)
      : problem(problem), places(places), options(options), set(set), microbatches(problem) {}

  /// Fills the program `made`. `held` are the rank's stages. `waits` says for each letter how many W must have
  /// completed before it starts (schedule::weightWaits); null where W run in the order of the word.
  void build(const schedule::Word &word, const std::vector<int32_t> &held, const std::vector<int32_t> *waits,
             Program &made) {
    program = &made;
    describe(held);
    program->instructions.reserve(word.size() + held.size() + 2);
    known.assign(problem.stages.size() * schedule::kLetters, kNone);
    weights.clear();
    inputs.clear();
    lastWeight.clear();
    int32_t awaited = 0; // how many W the letters so far have waited for
    const bool recomputes = problem.recomputes();
    for (size_t i = 0; i != word.size(); ++i) {
      const auto awaits = [&] {
        if (waits && (*waits)[i] > awaited) {
          awaited = (*waits)[i];
          use(weights[size_t(awaited - 1)]);
        }
      };
      if (const int32_t again = recomputes ? schedule::recomputedBefore(problem, word, i) : -1; again >= 0) {
        addPass({again, schedule::Letter::R});
        awaits();
      }
      if (word[i].overlapped)
        add({.kind = plan::Kind::Overlapped,
             .stage = word[i].stage,
             .cost = schedule::pairCost(problem, word[i], word[i + 1])},
            placeOf(word[i].stage, schedule::Letter::F));
      addPass(word[i]);
      awaits();
    }
    addEnd(held);
    program->sortUses();
  }

private:
  void describe(const std::vector<int32_t> &held) {
    const auto rank = size_t(program->rank);
    program->stages = held;
    program->communicator = options.communicator;
    program->fillsWeights = options.fillsWeights;
    program->copies = problem.copies;
    program->slices = problem.slices;
    program->staticBytes = problem.staticBytes.empty() ? 0 : problem.staticBytes[rank];
    program->workspace = problem.workspace.empty() ? 0 : problem.workspace[rank];
    if (problem.memoryLimit != 0)
      program->memoryLimit = problem.limitOf(program->rank);
  }

  uint32_t last() const { return uint32_t(program->instructions.size()) - 1; }
  void use(uint32_t definition) { program->uses.push_back({last(), definition}); }
  Location placeOf(int32_t stage, schedule::Letter letter) const {
    return places.passes[size_t(stage)][size_t(letter)].value_or(places.whole);
  }

  /// Adds an instruction; looks its operation up among those that the program has.
  void add(plan::Operation operation, Location place, plan::Bytes yields = -1) {
    setTimes(problem, program->rank, operation);
    const uint32_t index = program->indexOf(operation, yields);
    if (index == program->places.size())
      program->places.push_back(place);
    program->instructions.push_back({.operation = index, .queue = program->queueFor(operation), .place = index});
  }

  void addPass(schedule::Op op) {
    uint32_t &first = known[size_t(op.stage) * schedule::kLetters + size_t(op.letter)];
    if (first == kNone) {
      addFirst(op);
      first = last();
    } else {
      const Instruction like = program->instructions[first];
      program->instructions.push_back({.operation = like.operation, .queue = like.queue, .place = like.place});
    }
    const int32_t microbatch = program->instructions.back().microbatch = microbatches.next(op);
    if (!options.fillsWeights)
      return;
    // On another queue, order says nothing: a W there waits for its B, and a stage's optimizer for the stage's last W.
    if (op.letter == schedule::Letter::W) {
      program->instructions.back().in = inputs.at({op.stage, microbatch});
      weights.push_back(lastWeight[op.stage] = last());
    } else if (plan::does(schedule::kindOf(op.letter), plan::kInputGradient)) {
      inputs[{op.stage, microbatch}] = lastInput = last();
    }
  }

  /// Adds the first pass of its stage and kind, with the operation that all later ones share.
  void addFirst(schedule::Op op) {
    const schedule::Stage &stage = problem.stages[size_t(op.stage)];
    plan::Operation made;
    made.kind = schedule::kindOf(op.letter);
    made.stage = op.stage;
    const plan::KindRow &row = plan::rowOf(made.kind);
    const unsigned memory = plan::takes(made.kind, stage.input.has_value()) | row.frees;
    made.activation = (memory & plan::kActivation) != 0 ? stage.activation : 0;
    made.context = ((memory & plan::kContext) != 0 ? stage.context : 0) +
                   ((memory & plan::kBackwardContext) != 0 ? stage.backwardContext : 0);
    made.bytes = (memory & plan::kInput) != 0 ? stage.input.value_or(0) : 0;
    const int32_t next = row.gives == plan::Payload::Forward    ? problem.after(op.stage)
                         : row.gives == plan::Payload::Backward ? problem.before(op.stage)
                                                                : -1;
    add(made, placeOf(op.stage, op.letter), next < 0 ? -1 : problem.bytesBetween(op.stage, next));
  }

  /// Adds the rank's collectives and its stages' optimizer steps.
  void addEnd(const std::vector<int32_t> &held) {
    std::vector<uint32_t> ready; // all-reduces that every optimizer waits for
    const uint32_t lastPass = last();
    auto reduce = [&](const plan::Operation &operation) {
      std::vector<uint32_t> done{ready.empty() ? lastPass : last()};
      if (ready.empty() && options.fillsWeights) {
        done = {lastInput};
        if (!weights.empty()) // else all backwards are whole
          done.push_back(weights.back());
      }
      add(operation, places.whole);
      for (const uint32_t each : done)
        use(each);
      ready.push_back(last());
    };
    const int32_t rank = program->rank, partner = problem.partnerOf(rank);
    if (partner >= 0)
      reduce({.kind = plan::Kind::AllReduce,
              .of = plan::Payload::Gradients,
              .stage = held.front(),
              .bytes = schedule::copySumBytes(problem, rank),
              .group = set.groupOf({std::min(rank, partner), std::max(rank, partner)})});
    const std::vector<uint32_t> sums = addSharedSums(held); // by weight; kNone: not summed here
    if (problem.globalNorm) {
      reduce(normOf(held.front(), 0));
      for (const uint32_t sum : sums)
        if (sum != kNone)
          use(sum);
    }
    for (const int32_t stage : updateOrder(problem, held)) {
      add({.kind = plan::Kind::Optimizer, .stage = stage}, places.whole);
      for (const uint32_t each : ready)
        use(each);
      for (size_t w = 0; w != sums.size(); ++w)
        if (sums[w] != kNone && llvm::is_contained(problem.shared[w].stages, stage))
          use(sums[w]);
      if (auto weight = lastWeight.find(stage); weight != lastWeight.end())
        use(weight->second);
    }
  }

  /// Adds the sums of shared weights, which wait for the last passes of the stages that hold them alone. They stand
  /// behind all passes, so that under one order of all transfers they hold none of them up.
  std::vector<uint32_t> addSharedSums(const std::vector<int32_t> &held) {
    std::map<int32_t, uint32_t> made; // by stage: the last pass on the compute queue that adds to its gradients
    const uint32_t passes = last();
    if (!problem.shared.empty())
      for (uint32_t i = 0; i <= passes; ++i)
        if (const plan::Operation &own = program->of(program->instructions[i]);
            plan::does(own.kind, plan::kWeightGradient))
          made[own.stage] = i;
    std::vector<uint32_t> sums(problem.shared.size(), kNone);
    plan::Bytes before = 0;
    for (size_t w = 0; w != problem.shared.size(); before += problem.shared[w++].gradients) {
      const schedule::SharedWeight &weight = problem.shared[w];
      const std::vector<int32_t> ranks = schedule::ranksOf(problem, weight);
      if (ranks.size() < 2 || !llvm::is_contained(ranks, program->rank))
        continue;
      std::vector<int32_t> own;
      llvm::copy_if(weight.stages, std::back_inserter(own),
                    [&](int32_t stage) { return llvm::is_contained(held, stage); });
      add({.kind = plan::Kind::AllReduce,
           .of = plan::Payload::Shared,
           .stage = own.front(),
           .bytes = weight.gradients,
           .group = set.groupOf(ranks),
           .firstLayer = int32_t(w),
           .layers = 1,
           .begin = before,
           .end = before + weight.gradients},
          places.whole);
      sums[w] = last();
      for (const int32_t stage : own)
        use(made.at(stage));
    }
    return sums;
  }

  const schedule::Problem &problem;
  const PassPlaces &places;
  const BuildOptions &options;
  ProgramSet &set;
  Microbatches microbatches;
  // From here on: about the rank whose program is being built.
  Program *program = nullptr;
  std::vector<uint32_t> known; // the first instruction of each stage and letter
  // Used only where W run on a queue of their own.
  std::vector<uint32_t> weights;                                // all W in order
  llvm::DenseMap<int32_t, uint32_t> lastWeight;                 // the last W of each stage
  llvm::DenseMap<std::pair<int32_t, int32_t>, uint32_t> inputs; // the B of each stage and microbatch
  uint32_t lastInput = kNone;                                   // the last B
};

/// Finds the pass that takes each tensor, and adds a transfer if that pass is on another rank.
class TransferFinder {
public:
  TransferFinder(const schedule::Problem &problem, ProgramSet &set)
      : problem(problem), set(set), microbatches(size_t(problem.microbatches)),
        forwards(problem.stages.size() * microbatches, {kNone, kNone}), backwards(forwards) {}

  LogicalResult run() {
    if (failed(findPasses()))
      return failure();
    for (uint32_t rank = 0; rank != set.ranks(); ++rank) {
      const Program &program = set.programs[rank];
      std::vector<Hop> hops(program.operations.size());
      // Up to own[rank]: this loop appends transfers behind the rank's own instructions.
      for (uint32_t i = 0; i != own[rank]; ++i) {
        const Instruction &instruction = program.instructions[i];
        const int64_t bytes = program.yields[instruction.operation];
        if (bytes < 0)
          continue;
        const plan::Operation &operation = program.of(instruction);
        const bool forward = operation.kind == plan::Kind::Forward;
        const int32_t next = forward ? problem.after(operation.stage) : problem.before(operation.stage);
        const Place consumer =
            next < 0 ? Place{kNone, kNone}
                     : (forward ? forwards : backwards)[size_t(next) * microbatches + size_t(instruction.microbatch)];
        if (consumer.first == kNone)
          return program.emitError(i) << program.nameOf(i) << " yields a tensor that no stage takes";
        if (consumer.first != rank)
          add({rank, i}, consumer, bytes, hops[instruction.operation]);
      }
    }
    return success();
  }

private:
  using Place = std::pair<uint32_t, uint32_t>; // rank and instruction

  /// The send and the receive that passes of one operation share, each in its microbatch.
  struct Hop {
    int64_t bytes = -1;
    int32_t to = -1, stage = -1; // the rank and the stage that take the tensor
    uint32_t send = 0, recv = 0; // indices of their operations
  };

  LogicalResult findPasses() {
    for (uint32_t rank = 0; rank != set.ranks(); ++rank) {
      Program &program = set.programs[rank];
      own.push_back(program.instructions.size());
      size_t most = own.back(); // instructions, once transfers are added
      for (uint32_t i = 0; i != own.back(); ++i) {
        const Instruction &instruction = program.instructions[i];
        const plan::Kind kind = program.kind(instruction);
        if (plan::rowOf(kind).gives == plan::Payload::None)
          continue;
        most += 2;
        const size_t stage = size_t(program.of(instruction).stage), microbatch = size_t(instruction.microbatch);
        if (stage >= problem.stages.size() || microbatch >= microbatches)
          return program.emitError(i) << program.nameOf(i) << " is none of the pipeline's " << problem.stages.size()
                                      << " stages and " << microbatches << " microbatches";
        Place &place = (kind == plan::Kind::Forward ? forwards : backwards)[stage * microbatches + microbatch];
        if (place.first != kNone && program.of(instruction).layers != 0)
          continue; // of a pass in parts the first takes the tensor
        if (place.first != kNone)
          return program.emitError(i) << program.nameOf(i) << " stands twice";
        place = {rank, i};
      }
      program.instructions.reserve(most);
    }
    return success();
  }

  /// `known`: what the last transfer of the same operation used; often this one can use it too.
  void add(Place producer, Place consumer, int64_t bytes, Hop &known) {
    Program &from = set.programs[producer.first], &to = set.programs[consumer.first];
    const int32_t stage = to.of(to.instructions[consumer.second]).stage;
    if (known.bytes != bytes || known.to != int32_t(consumer.first) || known.stage != stage) {
      const plan::Operation &made = from.of(from.instructions[producer.second]);
      plan::Operation send;
      send.kind = plan::Kind::Send;
      send.of = made.kind == plan::Kind::Forward ? plan::Payload::Forward : plan::Payload::Backward;
      send.stage = made.stage;
      send.peer = to.rank;
      send.bytes = bytes;
      setTimes(problem, from.rank, send);
      plan::Operation recv = send;
      recv.kind = plan::Kind::Recv;
      recv.stage = stage;
      recv.peer = from.rank;
      known = {bytes, to.rank, stage, from.indexOf(send), to.indexOf(recv)};
    }
    set.addTransfer(from.rank, producer.second, known.send, to.rank, consumer.second, known.recv);
  }

  const schedule::Problem &problem;
  ProgramSet &set;
  const size_t microbatches;
  std::vector<Place> forwards, backwards; // by stage and microbatch
  std::vector<size_t> own;                // instructions of each rank before transfers
};

} // namespace

PassPlaces::PassPlaces(Location place, const schedule::Problem &problem)
    : whole(place), passes(problem.stages.size()) {}

PassPlaces::PassPlaces(PipelineOp pipeline) : whole(pipeline.getLoc()) {
  for (Operation &op : pipeline.block().getBody().front()) {
    const auto stage = size_t(stageOf(&op));
    if (stage >= passes.size())
      passes.resize(stage + 1);
    const schedule::Letter letter = schedule::letterOf(cast<InstructionOpInterface>(op).kind());
    passes[stage][size_t(letter)] = op.getLoc();
  }
  // In a word with split backwards some may still be whole (BW). The block states none; they take the place of its B.
  for (auto &own : passes)
    if (auto &whole = own[size_t(schedule::Letter::BW)]; !whole)
      whole = own[size_t(schedule::Letter::B)];
}

void setTimes(const schedule::Problem &problem, plan::Variant &variant) {
  for (plan::Program &program : variant.programs) {
    for (plan::Operation &operation : program.operations)
      setTimes(problem, program.rank, operation);
    for (size_t i = 0; i != program.instructions.size(); ++i) {
      plan::Operation &header = program.operations[program.instructions[i].operation];
      if (!plan::isHeader(header.kind))
        continue;
      const auto passAt = [&](size_t at) {
        const plan::Operation &pass = program.operations[program.instructions[at].operation];
        return schedule::Op{pass.stage, schedule::letterOf(pass.kind)};
      };
      header.cost = schedule::pairCost(problem, passAt(i + 1), passAt(i + 2));
    }
  }
}

std::vector<plan::SharedWeight> sharedOf(const schedule::Problem &problem) {
  std::vector<plan::SharedWeight> shared;
  for (const schedule::SharedWeight &weight : problem.shared)
    shared.push_back({weight.layers, weight.stages, weight.gradients});
  return shared;
}

ProgramSet buildPrograms(const schedule::Problem &problem, const schedule::Words &words, const PassPlaces &places,
                         const BuildOptions &options) {
  const std::vector<std::vector<int32_t>> stages = problem.stagesByRank();
  std::vector<std::vector<int32_t>> waits;
  if (options.fillsWeights)
    waits = schedule::weightWaits(problem, words);
  ProgramSet set;
  set.shared = sharedOf(problem);
  set.programs.reserve(words.size());
  Builder builder(problem, places, options, set);
  for (size_t rank = 0; rank != words.size(); ++rank) {
    Program &program = set.programs.emplace_back(places.whole);
    program.rank = int32_t(rank);
    builder.build(words[rank], stages[rank], waits.empty() ? nullptr : &waits[rank], program);
  }
  return set;
}

LogicalResult addTransfers(const schedule::Problem &problem, ProgramSet &set) {
  return TransferFinder(problem, set).run();
}

} // namespace pipec
