#include "compiler/passes/Lowered.h"

#include "compiler/schedule/Evaluate.h"
#include "runtime/plan/Load.h"

#include "llvm/ADT/TypeSwitch.h"

#include <array>

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
                  std::vector<mlir::Operation *> &ops)
      : op(op), unlimitedBuffers(options.unlimitedBuffers), queuePerFlow(options.queuePerFlow),
        communicator(options.communicator.value_or(op.getCommunicator())), program(program), ops(ops) {}

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
    mlir::Block &block = op.getStep().front();
    size_t size = block.getOperations().size();
    place.reserve(unsigned(size));
    ops.reserve(size);
    program.instructions.reserve(size);
    for (mlir::Operation &each : block)
      append(&each);
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
    std::array<int32_t, 4> key = {-1, 0, 0, 0};
    if (communicator != Communicator::Shared || queuePerFlow)
      key[0] = operation.peer;
    if (communicator == Communicator::PerEdge || queuePerFlow)
      key[1] = operation.kind == plan::Kind::Send ? 1 : 2;
    if (queuePerFlow) {
      key[2] = operation.stage;
      key[3] = int32_t(operation.of);
    }
    auto [it, isNew] = queueIndex.try_emplace(key, uint32_t(program.queues.size()));
    if (isNew) {
      program.queues.push_back({plan::QueueKind::Communicator, plan::Priority::Compute});
      count.push_back(0);
    }
    return it->second;
  }

  uint32_t indexOf(const plan::Operation &operation) {
    // A program has a few operations for each of its stages; equal ones follow each other closely.
    for (size_t o = program.operations.size(); o-- != 0;)
      if (program.operations[o] == operation)
        return uint32_t(o);
    program.operations.push_back(operation);
    return uint32_t(program.operations.size() - 1);
  }

  void append(mlir::Operation *each) {
    plan::Operation operation = operationOf(each);
    plan::Instruction instruction;
    instruction.operation = indexOf(operation);
    instruction.queue = queueOf(operation);
    instruction.microbatch = microbatchOf(each);
    program.instructions.push_back(instruction);
    ops.push_back(each);
    place[each] = {instruction.queue, ++count[instruction.queue]};
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
      users->second[size_t(next[key]++) % users->second.size()] = place.lookup(user);
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
        wait(instruction, place.lookup(definition), false);
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
  bool unlimitedBuffers, queuePerFlow;
  Communicator communicator;
  plan::Program &program;
  std::vector<mlir::Operation *> &ops;
  llvm::DenseMap<mlir::Operation *, Place> place;
  std::map<std::array<int32_t, 4>, uint32_t> queueIndex;
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
  for (size_t rank = 0; rank != programs.size(); ++rank) {
    ProgramOp op = programs[rank];
    plan::Program &program = lowering.variant.programs[rank];
    ProgramLowering(op, options, program, lowering.ops[rank]).run();
    for (const plan::Operation &operation : program.operations)
      lowering.variant.stages = std::max(lowering.variant.stages, operation.stage + 1);
    for (const plan::Instruction &instruction : program.instructions)
      lowering.variant.microbatches = std::max(lowering.variant.microbatches, instruction.microbatch + 1);
    lowering.variant.memoryLimit = std::max(lowering.variant.memoryLimit, int64_t(op.getMemoryLimit().value_or(0)));
  }
  return lowering;
}

std::string crossCheck(PipelineOp pipeline, const std::vector<ProgramOp> &programs) {
  schedule::Evaluation fast = schedule::evaluate(problemOf(pipeline), wordsOf(programs), {.withSpan = false});
  Lowering lowering = lower(programs, {.communicator = {}, .unlimitedBuffers = true, .queuePerFlow = true});
  simulate::Result judge;
  Status status = simulate::simulate(lowering.variant, {.steps = 1, .idealLinks = true, .observe = {}}, judge);
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
  valid = true;
  lowering = lower(*programs);
  rules = plan::verify(lowering.variant);
  progress = simulate::span(lowering.variant, span, result);
}

} // namespace pipec
