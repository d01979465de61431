#include "compiler/driver/CrossCheck.h"

#include "compiler/passes/Lowered.h"
#include "compiler/program/BuildPrograms.h"
#include "compiler/schedule/evaluate/Evaluate.h"

namespace pipec {

namespace {

/// Receives right before the passes that take what they bring, sends right behind those that make what they take; of an
/// overlapped pair, before its header and behind it. Each flow of tensors has a queue of its own.
std::vector<uint32_t> idealOrder(Program &program, size_t own) {
  std::vector<uint32_t> order;
  order.reserve(program.instructions.size());
  for (uint32_t first = 0; first != own;) {
    const bool overlaps = program.kind(program.instructions[first]) == plan::Kind::Overlapped;
    const uint32_t end = first + (overlaps ? 3 : 1);
    for (uint32_t i = first; i != end; ++i)
      if (const uint32_t recv = program.instructions[i].in; recv != kNone)
        order.push_back(recv);
    for (uint32_t i = first; i != end; ++i)
      order.push_back(i);
    for (uint32_t i = first; i != end; ++i)
      if (const uint32_t send = program.instructions[i].out; send != kNone)
        order.push_back(send);
    first = end;
  }
  std::vector<uint32_t> queueOf(program.operations.size(), kNone);
  for (size_t i = own; i != program.instructions.size(); ++i) {
    Instruction &transfer = program.instructions[i];
    uint32_t &queue = queueOf[transfer.operation];
    if (queue == kNone) {
      queue = uint32_t(program.queues.size());
      program.queues.push_back({{plan::QueueKind::Communicator, plan::Priority::Compute}, {}});
    }
    transfer.queue = queue;
  }
  return order;
}

/// The words as a variant in which no transfer is behind another's, without slots.
mlir::FailureOr<plan::Variant> idealVariant(const schedule::Problem &problem, const schedule::Words &words,
                                            mlir::Location place) {
  ProgramSet set = buildPrograms(problem, words, PassPlaces(place, problem), {});
  std::vector<size_t> own;
  for (const Program &program : set.programs)
    own.push_back(program.instructions.size());
  if (failed(addTransfers(problem, set)))
    return mlir::failure();
  for (size_t rank = 0; rank != set.ranks(); ++rank)
    set.reorder(rank, idealOrder(set.programs[rank], own[rank]));
  return lower(set, {.kept = false});
}

} // namespace

std::string crossCheck(const schedule::Problem &problem, const schedule::Words &words, mlir::Location place) {
  schedule::Evaluation fast = schedule::evaluate(problem, words, {.withSpan = false});
  const mlir::FailureOr<plan::Variant> ideal = idealVariant(problem, words, place);
  if (failed(ideal))
    return "the words have passes that the problem has not";
  simulate::Result judge;
  Status status = simulate::simulate(*ideal, {.steps = 1, .idealLinks = true, .observe = {}}, judge);
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

} // namespace pipec
