#include "compiler/driver/CrossCheck.h"

#include "compiler/passes/Roll.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "runtime/simulate/Simulate.h"

namespace pipec {

namespace {

/// One rank's program.
class IdealProgram {
public:
  IdealProgram(const Program &source, plan::Program &made) : source(source), made(made) {}

  void run() {
    made.rank = source.rank;
    made.operations = source.operations;
    made.queues.emplace_back();
    queueOf.resize(source.operations.size());
    ordinals.resize(source.instructions.size());
    const auto count = uint32_t(source.instructions.size());
    made.instructions.reserve(count);
    made.waits.reserve(count / 2);
    for (uint32_t i = 0; i != count; ++i) {
      if (plan::isTransfer(kindOf(i)))
        continue;
      const uint32_t last = i + (plan::isHeader(kindOf(i)) ? 2 : 0);
      for (uint32_t each = i; each <= last; ++each)
        if (const uint32_t in = receiveOf(each); in != kNone)
          add(in);
      addWithInputs(i, last);
      for (uint32_t each = i + 1; each <= last; ++each)
        add(each);
      for (uint32_t each = i; each <= last; ++each)
        if (const uint32_t out = source.instructions[each].out; out != kNone && plan::sends(kindOf(out))) {
          add(out);
          wait(each);
        }
      i = last;
    }
    made.step = {{0, uint32_t(made.instructions.size()), 1}};
  }

private:
  plan::Kind kindOf(uint32_t i) const { return source.kind(source.instructions[i]); }
  /// The receive whose tensor a pass takes.
  uint32_t receiveOf(uint32_t i) const {
    const uint32_t in = source.instructions[i].in;
    return in != kNone && plan::receives(kindOf(in)) ? in : kNone;
  }

  void add(uint32_t i) {
    const Instruction &own = source.instructions[i];
    uint32_t &queue = queueOf[own.operation];
    const bool isShared = plan::isOfShared(source.of(own)); // all of a rank go one after the other
    if (queue == 0 && isShared && ofShared != 0) {
      queue = ofShared;
    } else if (queue == 0 && plan::isCommunication(kindOf(i))) {
      queue = uint32_t(made.queues.size());
      made.queues.push_back({plan::QueueKind::Communicator, plan::Priority::Compute});
      counts.push_back(0);
      if (isShared)
        ofShared = queue;
    }
    ordinals[i] = ++counts[queue];
    made.instructions.push_back({own.operation, queue, uint32_t(made.waits.size()), 0, own.microbatch, 0});
  }

  /// The instruction, or the header of a pair up to `last`, waits for what all of these take.
  void addWithInputs(uint32_t i, uint32_t last) {
    add(i);
    for (uint32_t each = i; each <= last; ++each)
      if (const uint32_t in = receiveOf(each); in != kNone)
        wait(in);
    for (; nextUse != source.uses.size() && source.uses[nextUse].user <= last; ++nextUse)
      wait(source.uses[nextUse].definition);
  }

  /// The last instruction waits for another, unless the order of their queue says as much.
  void wait(uint32_t on) {
    const uint32_t queue = queueOf[source.instructions[on].operation];
    if (queue == made.instructions.back().queue)
      return;
    ++made.instructions.back().waits;
    made.waits.push_back({queue, false, ordinals[on], 0});
  }

  const Program &source;
  plan::Program &made;
  std::vector<uint32_t> queueOf;   // by operation; 0 for what no communicator runs
  std::vector<uint32_t> counts{0}; // instructions of each queue
  std::vector<uint32_t> ordinals;  // of each instruction in its queue, from 1
  uint32_t ofShared = 0;           // the queue of sums of shared weights; 0: none yet
  size_t nextUse = 0;
};

} // namespace

plan::Variant idealOf(const ProgramSet &set) {
  plan::Variant variant;
  variant.programs.resize(set.ranks());
  Roller roll;
  for (size_t rank = 0; rank != set.ranks(); ++rank) {
    const Program &program = set.programs[rank];
    IdealProgram(program, variant.programs[rank]).run();
    roll(variant.programs[rank]);
    variant.copies = program.copies;
    for (const int32_t stage : program.stages)
      variant.stages = std::max(variant.stages, stage + 1);
  }
  return variant;
}

std::string crossCheck(const schedule::Problem &problem, const schedule::Words &words, const plan::Variant &ideal) {
  schedule::Evaluation fast = schedule::evaluate(problem, words, {.withSpan = false});
  simulate::Result judge;
  Status status = simulate::simulate(ideal, {.steps = 1, .idealLinks = true, .observe = {}}, judge);
  if (!status.ok() || !fast.complete)
    return status.ok() == fast.complete ? "" : "the evaluator and the simulator do not agree whether the words end";
  if (fast.makespan != judge.makespan)
    return "the evaluator finds a makespan of " + std::to_string(fast.makespan) + " ps, the simulator " +
           std::to_string(judge.makespan) + " ps";
  for (size_t rank = 0; rank != judge.places.size(); ++rank)
    if (fast.peak[rank] != judge.places[rank].peakActivation)
      return "the evaluator finds a peak of " + std::to_string(fast.peak[rank]) + " bytes on rank " +
             std::to_string(rank) + ", the simulator " + std::to_string(judge.places[rank].peakActivation);
  return {};
}

} // namespace pipec
