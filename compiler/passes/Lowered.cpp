#include "compiler/passes/Lowered.h"

#include "compiler/schedule/Evaluate.h"
#include "runtime/plan/Load.h"

#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <map>
#include <tuple>

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

plan::Payload payloadOf(Payload of) {
  return of == Payload::Forward ? plan::Payload::Forward : plan::Payload::Backward;
}

template <typename Type> int64_t bytesIn(TypeRange types) {
  for (mlir::Type type : types)
    if (auto sized = dyn_cast<Type>(type))
      return sized.getBytes();
  return 0;
}

plan::Operation operationOf(mlir::Operation *op) {
  plan::Operation made;
  made.stage = stageOf(op);
  auto holds = [&](plan::Kind kind, auto pass, TypeRange types) {
    made.kind = kind;
    made.cost = int64_t(pass.getCost());
    made.activation = bytesIn<ActivationType>(types);
    made.context = bytesIn<ContextType>(types);
  };
  auto carries = [&](plan::Kind kind, auto transfer, BufferType type) {
    made.kind = kind;
    made.of = payloadOf(transfer.getOf());
    made.peer = int32_t(transfer.getPeer());
    made.cost = int64_t(transfer.getCost());
    made.latency = int64_t(transfer.getLatency());
    made.bytes = type.getBytes();
  };
  llvm::TypeSwitch<mlir::Operation *>(op)
      .Case<ForwardOp>([&](auto pass) { holds(plan::Kind::Forward, pass, op->getResultTypes()); })
      .Case<BackwardOp>([&](auto pass) { holds(plan::Kind::Backward, pass, op->getOperandTypes()); })
      .Case<BackwardInputOp>([&](auto pass) { holds(plan::Kind::BackwardInput, pass, op->getOperandTypes()); })
      .Case<BackwardWeightOp>([&](auto pass) { holds(plan::Kind::BackwardWeight, pass, op->getOperandTypes()); })
      .Case<SendOp>([&](SendOp send) {
        carries(plan::Kind::Send, send, cast<BufferType>(firstOf<BufferType>(send.getInputs()).getType()));
      })
      .Case<RecvOp>([&](RecvOp recv) { carries(plan::Kind::Recv, recv, cast<BufferType>(recv.getTensor().getType())); })
      .Case<OptimizerStepOp>([&](OptimizerStepOp optimizer) {
        made.kind = plan::Kind::Optimizer;
        made.cost = int64_t(optimizer.getCost());
      });
  return made;
}

/// Lowers one program.
class ProgramLowering {
public:
  ProgramLowering(ProgramOp op, const LowerOptions &options, plan::Program &program,
                  std::vector<mlir::Operation *> &ops, llvm::DenseMap<mlir::Operation *, uint32_t> &index)
      : op(op), unlimitedBuffers(options.unlimitedBuffers),
        communicator(options.communicator.value_or(op.getCommunicator())), program(program), ops(ops), index(index) {}

  void run() {
    program.rank = int32_t(op.getRank());
    if (auto stages = op.getStages())
      program.stages.assign(stages->begin(), stages->end());
    program.staticBytes = int64_t(op.getStaticBytes().value_or(0));
    program.workspace = int64_t(op.getWorkspace().value_or(0));
    if (auto rings = op.getRings(); rings && !unlimitedBuffers)
      for (auto ring : rings->getAsRange<RingAttr>())
        program.rings.push_back({ring.getPeer(), ring.getSends() ? plan::Direction::Send : plan::Direction::Recv,
                                 uint32_t(ring.getSlots()), ring.getBytes()});
    program.queues.push_back({plan::QueueKind::Device, plan::Priority::Compute});
    count.push_back(0);
    for (mlir::Operation &each : op.getStep().front())
      ops.push_back(&each);
    index.reserve(unsigned(ops.size()));
    ordinals.reserve(ops.size());
    program.instructions.reserve(ops.size());
    for (mlir::Operation *each : ops)
      append(each);
    inStep.assign(count.size() * count.size(), 0);
    before.assign(count.size() * count.size(), 0);
    findLastUsers();
    for (size_t i = 0; i != ops.size(); ++i)
      addWaits(i);
    program.step = {{0, uint32_t(ops.size()), 1}};
  }

private:
  struct Place {
    uint32_t queue;
    int64_t ordinal; // in its queue, from 1
  };

  uint32_t queueOf(const plan::Operation &operation) {
    if (!plan::isTransfer(operation.kind))
      return 0;
    std::pair<int32_t, int> key = queueKey(communicator, operation.peer, operation.kind == plan::Kind::Send);
    auto [it, isNew] = queueIndex.try_emplace(key, uint32_t(program.queues.size()));
    if (isNew) {
      program.queues.push_back({plan::QueueKind::Communicator, plan::Priority::Compute});
      count.push_back(0);
    }
    return it->second;
  }

  /// In a right program equal kind, payload and stage mean equal operations; the plan's rules refuse others.
  uint32_t indexOf(const plan::Operation &operation) {
    uint64_t key = uint64_t(uint32_t(operation.stage)) << 16 | uint64_t(operation.kind) << 8 | uint64_t(operation.of);
    auto [it, isNew] = operationIndex.try_emplace(key, uint32_t(program.operations.size()));
    if (!isNew && program.operations[it->second] == operation)
      return it->second;
    it->second = uint32_t(program.operations.size());
    program.operations.push_back(operation);
    return it->second;
  }

  void append(mlir::Operation *each) {
    plan::Operation operation = operationOf(each);
    plan::Instruction instruction;
    instruction.operation = indexOf(operation);
    instruction.queue = queueOf(operation);
    instruction.microbatch = microbatchOf(each);
    program.instructions.push_back(instruction);
    index[each] = uint32_t(ordinals.size());
    ordinals.push_back(++count[instruction.queue]);
  }

  /// Where an op of this program runs; nowhere (ordinal 0) for another's.
  Place placeOf(mlir::Operation *each) const {
    auto it = index.find(each);
    return it == index.end() ? Place{0, 0} : Place{program.instructions[it->second].queue, ordinals[it->second]};
  }

  /// By ring: what each slot's last user of a step is, to which the first user of the next step looks back.
  void findLastUsers() {
    for (const plan::Ring &ring : program.rings)
      lastUsers[{ring.peer, ring.direction}].assign(ring.size, Place{0, 0});
    for (mlir::Operation *each : ops) {
      if (auto send = dyn_cast<SendOp>(each))
        note({int32_t(send.getPeer()), plan::Direction::Send}, each);
      else if (auto recv = dyn_cast<RecvOp>(each); recv && recv.getTensor().hasOneUse())
        note({int32_t(recv.getPeer()), plan::Direction::Recv}, *recv.getTensor().user_begin());
    }
    next.clear();
  }

  using RingKey = std::pair<int32_t, plan::Direction>;
  void note(RingKey key, mlir::Operation *user) {
    auto users = lastUsers.find(key);
    if (users != lastUsers.end())
      users->second[size_t(next[key]++) % users->second.size()] = placeOf(user);
  }

  /// A wait, unless an earlier one of this queue covers it.
  void wait(plan::Instruction &instruction, Place on, bool previousStep) {
    if (on.ordinal == 0 || on.queue == instruction.queue)
      return;
    int64_t &covered = (previousStep ? before : inStep)[instruction.queue * count.size() + on.queue];
    if (covered >= on.ordinal)
      return;
    covered = on.ordinal;
    ++instruction.waits;
    program.waits.push_back({on.queue, previousStep, on.ordinal, 0});
  }

  void addWaits(size_t i) {
    plan::Instruction &instruction = program.instructions[i];
    instruction.firstWait = uint32_t(program.waits.size());
    mlir::Operation *each = ops[i];
    for (Value operand : each->getOperands())
      if (mlir::Operation *definition = operand.getDefiningOp();
          definition && !(unlimitedBuffers && isa<TokenType>(operand.getType())))
        wait(instruction, placeOf(definition), false);
    // The first users of a slot in this step look back at its last ones of the step before.
    if (auto recv = dyn_cast<RecvOp>(each))
      waitForLast(instruction, {int32_t(recv.getPeer()), plan::Direction::Recv});
    else if (Value tensor = firstOf<BufferType>(each->getResults()))
      for (mlir::Operation *user : tensor.getUsers())
        if (auto send = dyn_cast<SendOp>(user))
          waitForLast(instruction, {int32_t(send.getPeer()), plan::Direction::Send});
  }

  void waitForLast(plan::Instruction &instruction, RingKey key) {
    auto users = lastUsers.find(key);
    if (users == lastUsers.end())
      return;
    int64_t n = next[key]++;
    if (size_t(n) < users->second.size())
      wait(instruction, users->second[size_t(n)], true);
  }

  ProgramOp op;
  bool unlimitedBuffers;
  Communicator communicator;
  plan::Program &program;
  std::vector<mlir::Operation *> &ops;
  llvm::DenseMap<mlir::Operation *, uint32_t> &index;
  std::vector<int64_t> ordinals; // of each instruction in its queue, from 1
  llvm::DenseMap<uint64_t, uint32_t> operationIndex;
  std::map<std::pair<int32_t, int>, uint32_t> queueIndex;
  std::vector<int64_t> count;          // of each queue
  std::vector<int64_t> inStep, before; // covered, by (queue, queue waited for)
  std::map<RingKey, std::vector<Place>> lastUsers;
  std::map<RingKey, int64_t> next;
};

} // namespace

Lowering lower(const std::vector<ProgramOp> &programs, const LowerOptions &options) {
  Lowering lowering;
  lowering.variant.programs.resize(programs.size());
  lowering.ops.resize(programs.size());
  lowering.index.resize(programs.size());
  for (size_t rank = 0; rank != programs.size(); ++rank) {
    ProgramOp op = programs[rank];
    plan::Program &program = lowering.variant.programs[rank];
    ProgramLowering(op, options, program, lowering.ops[rank], lowering.index[rank]).run();
    for (const plan::Operation &operation : program.operations)
      lowering.variant.stages = std::max(lowering.variant.stages, operation.stage + 1);
    for (const plan::Instruction &instruction : program.instructions)
      lowering.variant.microbatches = std::max(lowering.variant.microbatches, instruction.microbatch + 1);
    lowering.variant.memoryLimit = std::max(lowering.variant.memoryLimit, int64_t(op.getMemoryLimit().value_or(0)));
  }
  return lowering;
}

LogicalResult checkPeers(const Lowering &lowering) {
  const auto &programs = lowering.variant.programs;
  for (size_t rank = 0; rank != programs.size(); ++rank)
    for (size_t o = 0; o != programs[rank].operations.size(); ++o) {
      if (programs[rank].operations[o].peer < int32_t(programs.size()))
        continue;
      const auto &instructions = programs[rank].instructions;
      auto first = std::find_if(instructions.begin(), instructions.end(),
                                [o](const plan::Instruction &each) { return each.operation == o; });
      mlir::Operation *op = lowering.ops[rank][size_t(first - instructions.begin())];
      return op->emitError() << nameOf(op) << " names rank " << programs[rank].operations[o].peer
                             << ", which has no program";
    }
  return success();
}

namespace {

/// The words as a variant with a queue for each flow of tensors, so that no transfer is behind another's, and no slots.
plan::Variant idealVariant(const schedule::Problem &problem, const schedule::Words &words) {
  plan::Variant variant;
  std::vector<std::vector<int32_t>> stages = problem.stagesByRank();
  for (const schedule::Word &word : words) {
    plan::Program &program = variant.programs.emplace_back();
    int32_t rank = program.rank = int32_t(variant.programs.size() - 1);
    program.queues.emplace_back();
    struct Flow {
      uint32_t operation = 0, queue = 0;
      int64_t count = 0;
    };
    std::map<std::tuple<int32_t, plan::Kind, plan::Payload>, Flow> flows;
    auto append = [&](plan::Operation operation, std::optional<plan::Wait> wait) {
      auto [it, isNew] = flows.try_emplace({operation.stage, operation.kind, operation.of});
      if (isNew) {
        it->second.operation = uint32_t(program.operations.size());
        program.operations.push_back(operation);
        if (plan::isTransfer(operation.kind)) {
          it->second.queue = uint32_t(program.queues.size());
          program.queues.push_back({plan::QueueKind::Communicator, plan::Priority::Compute});
        }
      }
      program.instructions.push_back({it->second.operation, it->second.queue, uint32_t(program.waits.size()),
                                      wait ? 1u : 0u, int32_t(it->second.count), 0});
      if (wait)
        program.waits.push_back(*wait);
      return plan::Wait{it->second.queue, false, ++it->second.count, 0};
    };
    int64_t computed = 0;
    auto hop = [&](plan::Kind kind, plan::Payload of, int32_t stage, int32_t other) {
      int32_t peer = problem.rankOf[size_t(other)];
      auto [from, to] = kind == plan::Kind::Send ? std::pair(rank, peer) : std::pair(peer, rank);
      const schedule::Link &link = problem.linkBetween(from, to);
      schedule::Bytes bytes = problem.stages[size_t(std::min(stage, other))].boundary;
      return plan::Operation{kind, of, stage, peer, schedule::wireTime(bytes, link.bandwidth), link.latency};
    };
    auto elsewhere = [&](int32_t stage) {
      return stage >= 0 && size_t(stage) < problem.rankOf.size() && problem.rankOf[size_t(stage)] != rank;
    };
    for (schedule::Op op : word) {
      const schedule::Stage &stage = problem.stages[size_t(op.stage)];
      bool forward = op.letter == schedule::Letter::F, weight = op.letter == schedule::Letter::W;
      int32_t before = op.stage + (forward ? -1 : 1), after = op.stage + (forward ? 1 : -1);
      plan::Payload of = forward ? plan::Payload::Forward : plan::Payload::Backward;
      std::optional<plan::Wait> arrival;
      if (!weight && elsewhere(before))
        arrival = append(hop(plan::Kind::Recv, of, op.stage, before), std::nullopt);
      plan::Operation pass;
      pass.stage = op.stage;
      pass.activation = weight ? 0 : stage.activation;
      pass.context = op.letter == schedule::Letter::B ? 0 : stage.context;
      pass.kind = forward                            ? plan::Kind::Forward
                  : weight                           ? plan::Kind::BackwardWeight
                  : op.letter == schedule::Letter::B ? plan::Kind::BackwardInput
                                                     : plan::Kind::Backward;
      pass.cost = forward                            ? stage.forward
                  : weight                           ? stage.backwardWeight
                  : op.letter == schedule::Letter::B ? stage.backwardInput
                                                     : stage.backward;
      append(pass, arrival);
      ++computed;
      if (!weight && elsewhere(after))
        append(hop(plan::Kind::Send, of, op.stage, after), plan::Wait{0, false, computed, 0});
    }
    for (int32_t stage : stages[size_t(rank)]) {
      plan::Operation optimizer;
      optimizer.kind = plan::Kind::Optimizer;
      optimizer.stage = stage;
      optimizer.cost = problem.stages[size_t(stage)].optimizer;
      append(optimizer, std::nullopt);
    }
    program.step = {{0, uint32_t(program.instructions.size()), 1}};
  }
  return variant;
}

} // namespace

std::string crossCheck(PipelineOp pipeline, const std::vector<ProgramOp> &programs) {
  schedule::Problem problem = problemOf(pipeline);
  schedule::Words words = wordsOf(programs);
  schedule::Evaluation fast = schedule::evaluate(problem, words, {.withSpan = false});
  plan::Variant ideal = idealVariant(problem, words);
  simulate::Result judge;
  Status status = simulate::simulate(ideal, {.steps = 1, .idealLinks = true, .observe = {}}, judge);
  if (!status.ok() || !fast.complete)
    return status.ok() == fast.complete ? "" : "the evaluator and the simulator do not agree whether the words end";
  if (fast.makespan != judge.makespan)
    return "the evaluator finds a makespan of " + std::to_string(fast.makespan) + " ps, the simulator " +
           std::to_string(judge.makespan) + " ps";
  for (size_t rank = 0; rank != judge.ranks.size(); ++rank)
    if (fast.peak[rank] != judge.ranks[rank].peakActivation)
      return "the evaluator finds a peak of " + std::to_string(fast.peak[rank]) + " bytes on rank " +
             std::to_string(rank) + ", the simulator " + std::to_string(judge.ranks[rank].peakActivation);
  return {};
}

Lowered::Lowered(mlir::Operation *module) {
  auto programs = findPrograms(cast<ModuleOp>(module));
  if (failed(programs))
    return;
  lowering = lower(*programs);
  valid = succeeded(checkPeers(lowering));
  if (!valid)
    return;
  rules = plan::verify(lowering.variant);
  progress = simulate::span(lowering.variant, span, result);
}

} // namespace pipec
