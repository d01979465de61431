#include "compiler/passes/CrossCheck.h"

#include "compiler/passes/Roll.h"

#include "compiler/schedule/Evaluate.h"
#include "runtime/simulate/Simulate.h"

#include <map>
#include <optional>
#include <tuple>

namespace pipec {

namespace {

/// The words as a variant with a queue for each flow of tensors, so that no transfer is behind another's, and no slots.
plan::Variant idealVariant(const schedule::Problem &problem, const schedule::Words &words) {
  plan::Variant variant;
  variant.stages = int32_t(problem.stages.size());
  variant.copies = problem.copies;
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
        if (plan::isCommunication(operation.kind)) {
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
    auto elsewhere = [&](int32_t stage) { return stage >= 0 && problem.rankOf[size_t(stage)] != rank; };
    for (schedule::Op op : word) {
      const schedule::Stage &stage = problem.stages[size_t(op.stage)];
      bool forward = op.letter == schedule::Letter::F, weight = op.letter == schedule::Letter::W;
      const int32_t up = problem.after(op.stage), down = problem.before(op.stage);
      int32_t before = forward ? down : up, after = forward ? up : down;
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
    std::optional<plan::Wait> reduced;
    if (int32_t partner = problem.partnerOf(rank); partner >= 0) {
      plan::Operation reduce;
      reduce.kind = plan::Kind::AllReduce;
      reduce.stage = stages[size_t(rank)].back(); // apart from the other all-reduce
      reduce.peer = partner;
      reduce.cost = schedule::copySumTime(problem, rank);
      reduced = append(reduce, plan::Wait{0, false, computed, 0});
    }
    if (problem.globalNorm) {
      plan::Operation reduce;
      reduce.kind = plan::Kind::AllReduce;
      reduce.stage = stages[size_t(rank)].front();
      reduce.cost = *problem.globalNorm;
      reduced = append(reduce, reduced ? *reduced : plan::Wait{0, false, computed, 0});
    }
    for (int32_t stage : stages[size_t(rank)]) {
      plan::Operation optimizer;
      optimizer.kind = plan::Kind::Optimizer;
      optimizer.stage = stage;
      optimizer.cost = problem.stages[size_t(stage)].optimizer;
      append(optimizer, reduced);
    }
    program.step = {{0, uint32_t(program.instructions.size()), 1}};
    roll(program);
  }
  return variant;
}

} // namespace

std::string crossCheck(const schedule::Problem &problem, const schedule::Words &words) {
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

} // namespace pipec
