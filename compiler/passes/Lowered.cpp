#include "compiler/passes/Lowered.h"

#include "compiler/passes/Beside.h"
#include "compiler/passes/Roll.h"
#include "runtime/plan/Load.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace pipec {

using namespace pipe;

namespace {

/// Lowers one program.
class ProgramLowering {
public:
  ProgramLowering(const Stream &stream, const LowerOptions &options, plan::Program &program)
      : stream(stream), op(stream.program), communicator(options.communicator.value_or(op.getCommunicator())),
        program(program) {}

  void run() {
    program.rank = int32_t(op.getRank());
    if (auto stages = op.getStages())
      program.stages.assign(stages->begin(), stages->end());
    program.staticBytes = int64_t(op.getStaticBytes().value_or(0));
    program.workspace = int64_t(op.getWorkspace().value_or(0));
    program.operations = stream.operations;
    addQueues();
    addInstructions();
    if (op.getRings())
      addRings();
    program.waits.reserve(stream.records.size() + stream.uses.size());
    for (uint32_t i = 0; i != stream.records.size(); ++i) {
      // Both of a pair start when both can, so its header waits for what either waits for.
      const uint32_t last = i + (stream.kind(stream.records[i]) == plan::Kind::Overlapped ? 2 : 0);
      program.instructions[i].firstWait = uint32_t(program.waits.size());
      for (uint32_t of = i; of <= last; ++of)
        addWaits(of, program.instructions[i]);
      for (; i != last; ++i)
        program.instructions[i + 1].firstWait = uint32_t(program.waits.size());
    }
    program.step = {{0, uint32_t(stream.records.size()), 1}};
  }

private:
  struct Place {
    uint32_t queue = 0;
    int64_t ordinal = 0; // in its queue, from 1; 0: nowhere
  };

  void addQueues() {
    program.queues.push_back({plan::QueueKind::Device, plan::Priority::Compute});
    // In the order in which the program meets them.
    constexpr uint32_t kUnknown = ~uint32_t(0);
    queueOf.assign(stream.operations.size(), kUnknown);
    std::map<std::pair<int32_t, int>, uint32_t> communicators;
    std::optional<uint32_t> weights;
    for (const Record &record : stream.records) {
      uint32_t &queue = queueOf[record.operation];
      if (queue != kUnknown)
        continue;
      const plan::Operation &operation = stream.of(record);
      uint32_t added = uint32_t(program.queues.size());
      if (plan::isCommunication(operation.kind)) {
        // Of collectives, the whole group's: its own, unless all is one.
        auto key = queueKey(communicator, operation.peer, operation.kind == plan::Kind::Send);
        if (operation.kind == plan::Kind::AllReduce && communicator != Communicator::Shared)
          key.second = 3; // of a peer, neither of the queues of their transfers
        queue = communicators.try_emplace(key, added).first->second;
        if (queue == added)
          program.queues.push_back({plan::QueueKind::Communicator, plan::Priority::Compute});
      } else if (op.getFillWeights() && operation.kind == plan::Kind::BackwardWeight) {
        if (!weights) {
          weights = added;
          program.queues.push_back({plan::QueueKind::Device, plan::Priority::Weights});
        }
        queue = *weights;
      } else {
        queue = 0;
      }
    }
  }

  void addInstructions() {
    std::vector<uint32_t> count(program.queues.size());
    program.instructions.resize(stream.records.size());
    ordinals.resize(stream.records.size());
    for (size_t i = 0; i != stream.records.size(); ++i) {
      const Record &record = stream.records[i];
      plan::Instruction &instruction = program.instructions[i];
      instruction.operation = record.operation;
      instruction.queue = queueOf[record.operation];
      instruction.microbatch = record.microbatch;
      ordinals[i] = ++count[instruction.queue];
    }
    inStep.assign(count.size() * count.size(), 0);
    before.assign(count.size() * count.size(), 0);
  }

  Place placeOf(uint32_t record) const { return {program.instructions[record].queue, ordinals[record]}; }

  /// Of each ring, what each slot's last user of a step is, to which the first user of the next step looks back.
  struct LastUsers {
    std::vector<Place> users; // by slot
    size_t noted = 0, asked = 0;
  };
  void addRings() {
    for (auto ring : op.getRings()->getAsRange<RingAttr>()) {
      program.rings.push_back({ring.getPeer(), ring.getSends() ? plan::Direction::Send : plan::Direction::Recv,
                               uint32_t(ring.getSlots()), ring.getBytes()});
      lastUsers[{ring.getPeer(), ring.getSends()}].users.resize(size_t(ring.getSlots()));
    }
    ringOf.resize(stream.operations.size(), nullptr);
    for (size_t o = 0; o != stream.operations.size(); ++o)
      if (const plan::Operation &operation = stream.operations[o]; plan::isTransfer(operation.kind))
        if (auto it = lastUsers.find({operation.peer, operation.kind == plan::Kind::Send}); it != lastUsers.end())
          ringOf[o] = &it->second;
    for (uint32_t i = 0; i != stream.records.size(); ++i) {
      const Record &record = stream.records[i];
      LastUsers *last = ringOf[record.operation];
      bool sends = stream.kind(record) == plan::Kind::Send;
      if (last && (sends || record.out != kNone))
        last->users[last->noted++ % last->users.size()] = placeOf(sends ? i : record.out);
    }
  }

  /// A wait, unless an earlier one of this queue covers it.
  void wait(plan::Instruction &instruction, Place on, bool previousStep) {
    if (on.ordinal == 0 || on.queue == instruction.queue)
      return;
    int64_t &covered = (previousStep ? before : inStep)[instruction.queue * program.queues.size() + on.queue];
    if (covered >= on.ordinal)
      return;
    covered = on.ordinal;
    if (program.operations[instruction.operation].kind == plan::Kind::Overlapped) // of two the later one is enough
      for (uint32_t w = instruction.firstWait; w != program.waits.size(); ++w)
        if (plan::Wait &other = program.waits[w]; other.queue == on.queue && other.previousStep == previousStep) {
          other.base = on.ordinal;
          return;
        }
    ++instruction.waits;
    program.waits.push_back({on.queue, previousStep, on.ordinal, 0});
  }

  /// Those of a record, on an instruction of its queue.
  void addWaits(uint32_t i, plan::Instruction &instruction) {
    const Record &record = stream.records[i];
    plan::Kind kind = stream.kind(record);
    if (kind != plan::Kind::Recv && record.in != kNone)
      wait(instruction, placeOf(record.in), false);
    for (; nextUse != stream.uses.size() && stream.uses[nextUse].user == i; ++nextUse)
      wait(instruction, placeOf(stream.uses[nextUse].definition), false);
    if (ringOf.empty())
      return;
    // The first users of a slot in this step look back at its last ones of the step before: the receive itself, or the
    // pass that yields what is sent.
    if (kind == plan::Kind::Recv)
      waitForLast(instruction, ringOf[record.operation]);
    else if (plan::isCompute(kind) && record.out != kNone)
      waitForLast(instruction, ringOf[stream.records[record.out].operation]);
  }

  void waitForLast(plan::Instruction &instruction, LastUsers *last) {
    if (last && last->asked < last->users.size())
      wait(instruction, last->users[last->asked++], true);
  }

  const Stream &stream;
  ProgramOp op;
  Communicator communicator;
  plan::Program &program;
  std::vector<uint32_t> queueOf;                           // of each operation
  std::vector<uint32_t> ordinals;                          // of each instruction in its queue, from 1
  std::vector<int64_t> inStep, before;                     // covered, by (queue, queue waited for)
  std::map<std::pair<int32_t, bool>, LastUsers> lastUsers; // by peer and direction
  std::vector<LastUsers *> ringOf;                         // of each operation
  size_t nextUse = 0;
};

} // namespace

static size_t recordsOf(const Streams &streams) {
  size_t records = 0;
  for (const Stream &stream : streams.ranks)
    records += stream.records.size();
  return records;
}

plan::Variant lower(const Streams &streams, const LowerOptions &options) {
  plan::Variant variant;
  variant.programs.resize(streams.ranks.size());
  auto lowerSome = [&](size_t first, size_t last) {
    Roller rollToWalk;
    for (size_t rank = first; rank != last; ++rank) {
      ProgramLowering(streams.ranks[rank], options, variant.programs[rank]).run();
      if (options.kept)
        roll(variant.programs[rank]);
      else
        rollToWalk(variant.programs[rank]);
    }
  };
  const size_t half = streams.ranks.size() / 2;
  std::future<void> others =
      beside(recordsOf(streams) >= kManyOperations, [&] { lowerSome(half, streams.ranks.size()); });
  lowerSome(0, half);
  others.get();
  for (const Stream &stream : streams.ranks) {
    variant.copies = std::max(variant.copies, int32_t(ProgramOp(stream.program).getCopies().value_or(1)));
    variant.slices = std::max(variant.slices, int32_t(ProgramOp(stream.program).getSlices().value_or(1)));
    for (const plan::Operation &operation : stream.operations)
      variant.stages = std::max(variant.stages, operation.stage + 1);
    for (const Record &record : stream.records)
      variant.microbatches = std::max(variant.microbatches, record.microbatch + 1);
    variant.memoryLimit =
        std::max(variant.memoryLimit, int64_t(ProgramOp(stream.program).getMemoryLimit().value_or(0)));
  }
  return variant;
}

Lowered::Lowered(mlir::Operation *, AnalysisManager &analyses) {
  const Streams &streams = analyses.getAnalysis<Streams>();
  if (!streams.valid || failed(streams.checkPeers()))
    return;
  valid = true;
  variant = lower(streams);
  std::future<Status> judged = beside(recordsOf(streams) >= kManyOperations, [this] { return plan::verify(variant); });
  walk(streams);
  rules = judged.get();
}

void Lowered::walk(const Streams &streams) {
  simulate::Options options;
  options.keepVisits = streams.keepVisits;
  if (const std::optional<Streams::Predicted> &known = streams.predicted) {
    progress = simulate::simulate(variant, options, result);
    span = known->span;
    if (progress.ok() && result.makespan == known->makespan)
      return;
  }
  progress = simulate::span(variant, span, result, options);
}

} // namespace pipec
