#include "compiler/passes/Lowered.h"

#include "compiler/passes/Beside.h"
#include "compiler/passes/Roll.h"
#include "runtime/plan/Load.h"

#include <algorithm>
#include <map>
#include <utility>

namespace pipec {

namespace {

/// Lowers one program of the set.
class ProgramLowering {
public:
  ProgramLowering(const Program &source, plan::Program &program) : source(source), program(program) {}

  void run() {
    program.rank = source.rank;
    program.stages = source.stages;
    program.staticBytes = source.staticBytes;
    program.workspace = source.workspace;
    program.operations = source.operations;
    program.job = source.job;
    program.piece = source.piece;
    program.windows = source.windows;
    addInstructions();
    if (source.rings)
      addRings();
    const auto count = uint32_t(source.instructions.size());
    program.waits.reserve(count + source.uses.size());
    for (uint32_t i = 0; i != count; ++i) {
      // The two passes of a pair start when both can, so the pair's header waits for what either of them waits for.
      const uint32_t last = i + (plan::isHeader(source.kind(source.instructions[i])) ? 2 : 0);
      program.instructions[i].firstWait = uint32_t(program.waits.size());
      for (uint32_t of = i; of <= last; ++of)
        addWaits(of, program.instructions[i]);
      for (; i != last; ++i)
        program.instructions[i + 1].firstWait = uint32_t(program.waits.size());
    }
    if (count != 0)
      program.step = {{0, count, 1}};
  }

private:
  struct Place {
    uint32_t queue = 0;
    int64_t ordinal = 0; // in its queue, from 1; 0: no instruction
  };

  /// Adds instructions and queues. Queues are numbered as the program meets them, the compute queue first.
  void addInstructions() {
    constexpr uint32_t kUnknown = ~uint32_t(0);
    std::vector<uint32_t> queueOf(source.queues.size(), kUnknown), count(1);
    queueOf.front() = 0;
    program.queues.push_back(source.queues.front().queue);
    program.instructions.resize(source.instructions.size());
    ordinals.resize(source.instructions.size());
    for (size_t i = 0; i != source.instructions.size(); ++i) {
      const Instruction &own = source.instructions[i];
      uint32_t &queue = queueOf[own.queue];
      if (queue == kUnknown) {
        queue = uint32_t(program.queues.size());
        program.queues.push_back(source.queues[own.queue].queue);
        count.push_back(0);
      }
      plan::Instruction &instruction = program.instructions[i];
      instruction.operation = own.operation;
      instruction.queue = queue;
      instruction.microbatch = own.microbatch;
      ordinals[i] = ++count[queue];
    }
    inStep.assign(count.size() * count.size(), 0);
    before.assign(count.size() * count.size(), 0);
  }

  Place placeOf(uint32_t instruction) const { return {program.instructions[instruction].queue, ordinals[instruction]}; }

  /// The last user of each slot of a ring in a step, for which the slot's first user in the next step waits.
  struct LastUsers {
    std::vector<Place> users;    // by slot
    size_t noted = 0, asked = 0; // transfers of the ring seen so far, and first users that got their wait
    void note(Place place) {
      Place &user = users[noted++ % users.size()];
      if (users.size() > 1 || place.ordinal > user.ordinal) // they need not be in order
        user = place;
    }
  };
  void addRings() {
    program.rings.assign(source.rings->begin(), source.rings->end());
    for (const Ring &ring : *source.rings) // whatever its slots, one that is drained waits for the last of all users
      lastUsers[{ring.peer, ring.direction == plan::Direction::Send}].users.resize(ring.drained ? 1 : ring.size);
    ringOf.resize(source.operations.size(), nullptr);
    for (size_t o = 0; o != source.operations.size(); ++o)
      if (const plan::Operation &operation = source.operations[o]; plan::isTransfer(operation.kind))
        if (auto it = lastUsers.find({operation.peer, plan::sends(operation.kind)}); it != lastUsers.end())
          ringOf[o] = &it->second;
    for (uint32_t i = 0; i != source.instructions.size(); ++i) {
      const Instruction &own = source.instructions[i];
      LastUsers *last = ringOf[own.operation];
      const bool sends = plan::sends(source.kind(own));
      if (last && (sends || own.out != kNone))
        last->note(placeOf(sends ? i : own.out));
    }
  }

  /// Adds a wait, unless an earlier instruction of the same queue has waited for as much.
  void wait(plan::Instruction &instruction, Place on, bool previousStep) {
    if (on.ordinal == 0 || on.queue == instruction.queue)
      return;
    int64_t &covered = (previousStep ? before : inStep)[instruction.queue * program.queues.size() + on.queue];
    if (covered >= on.ordinal)
      return;
    covered = on.ordinal;
    // A header has the waits of two passes. Of two waits on one queue the later is enough.
    if (plan::isHeader(program.operations[instruction.operation].kind))
      for (uint32_t w = instruction.firstWait; w != program.waits.size(); ++w)
        if (plan::Wait &other = program.waits[w]; other.queue == on.queue && other.previousStep == previousStep) {
          other.base = on.ordinal;
          return;
        }
    ++instruction.waits;
    program.waits.push_back({on.queue, previousStep, on.ordinal, 0});
  }

  /// Adds the waits of instruction i of the set to `instruction`: its own lowered one, or the header of its pair.
  void addWaits(uint32_t i, plan::Instruction &instruction) {
    const Instruction &own = source.instructions[i];
    const plan::Kind kind = source.kind(own);
    if (!plan::receives(kind) && own.in != kNone)
      wait(instruction, placeOf(own.in), false);
    for (; nextUse != source.uses.size() && source.uses[nextUse].user == i; ++nextUse)
      wait(instruction, placeOf(source.uses[nextUse].definition), false);
    for (; nextCarried != source.carried.size() && source.carried[nextCarried].user == i; ++nextCarried)
      wait(instruction, placeOf(source.carried[nextCarried].definition), true);
    if (ringOf.empty())
      return;
    // The first users of slots in this step wait for the last ones of the step before. A slot's user is a receive, or
    // the pass whose result is sent.
    if (plan::receives(kind))
      waitForLast(instruction, ringOf[own.operation]);
    else if (plan::isCompute(kind) && own.out != kNone)
      waitForLast(instruction, ringOf[source.instructions[own.out].operation]);
  }

  void waitForLast(plan::Instruction &instruction, LastUsers *last) {
    if (last && last->asked < last->users.size())
      wait(instruction, last->users[last->asked++], true);
  }

  const Program &source;
  plan::Program &program;
  std::vector<uint32_t> ordinals; // of each instruction in its queue, from 1
  /// The largest ordinal waited for so far, in this step and in the step before, by (queue, queue waited for).
  std::vector<int64_t> inStep, before;
  std::map<std::pair<int32_t, bool>, LastUsers> lastUsers; // by peer and whether it sends
  std::vector<LastUsers *> ringOf;                         // by operation; null: no transfer
  size_t nextUse = 0, nextCarried = 0;
};

} // namespace

plan::Variant lower(const ProgramSet &set, const LowerOptions &options) {
  plan::Variant variant;
  variant.programs.resize(set.ranks());
  auto lowerSome = [&](size_t first, size_t last) {
    Roller rollToWalk;
    for (size_t rank = first; rank != last; ++rank) {
      ProgramLowering(set.programs[rank], variant.programs[rank]).run();
      if (options.kept)
        roll(variant.programs[rank]);
      else
        rollToWalk(variant.programs[rank]);
    }
  };
  const size_t half = set.ranks() / 2;
  std::future<void> others = beside(set.instructions() >= kManyOperations, [&] { lowerSome(half, set.ranks()); });
  lowerSome(0, half);
  others.get();
  for (const Program &program : set.programs) {
    variant.launchOrder |= program.communicator == pipe::Communicator::LaunchOrder;
    variant.copies = std::max(variant.copies, program.copies);
    variant.slices = std::max(variant.slices, program.slices);
    for (const plan::Operation &operation : program.operations)
      variant.stages = std::max(variant.stages, operation.stage + 1);
    for (const Instruction &own : program.instructions)
      variant.microbatches = std::max(variant.microbatches, own.microbatch + 1);
    variant.memoryLimit = std::max(variant.memoryLimit, program.memoryLimit.value_or(0));
  }
  variant.layers = set.layers;
  variant.shared = set.shared;
  variant.batch = set.batch;
  variant.stageGroups = set.stageGroups;
  variant.boundaries = set.boundaries;
  variant.sharedPort = set.sharedPort;
  for (const Program &program : set.programs)
    if (program.memoryLimit && *program.memoryLimit != variant.memoryLimit)
      variant.programs[size_t(program.rank)].memoryLimit = *program.memoryLimit;
  if (set.shards)
    apply(*set.shards, variant);
  if (set.jobs) {
    variant.slowDown = set.jobs->slowDown;
    for (const jobs::Job &job : set.jobs->work)
      variant.jobs.push_back(job.row);
  }
  return variant;
}

Lowered::Lowered(const ProgramSet &set, bool keepVisits) : variant(lower(set)) {
  const bool hasWindows = std::ranges::any_of(set.programs, [](const Program &each) { return !each.windows.empty(); });
  // Windows are judged by what a step takes.
  std::future<Status> judged =
      beside(!hasWindows && set.instructions() >= kManyOperations, [this] { return plan::verify(variant); });
  walk(set, keepVisits);
  if (hasWindows)
    variant.certificate.span = span;
  rules = judged.get();
}

void Lowered::walk(const ProgramSet &set, bool keepVisits) {
  simulate::Options options;
  options.keepVisits = keepVisits;
  if (const std::optional<Predicted> &known = set.predicted) {
    progress = simulate::simulate(variant, options, result);
    span = known->span;
    if (progress.ok() && result.makespan == known->makespan)
      return;
  }
  progress = simulate::span(variant, span, result, options);
}

} // namespace pipec
