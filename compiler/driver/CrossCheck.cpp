#include "compiler/driver/CrossCheck.h"

#include "compiler/passes/Roll.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "runtime/simulate/Simulate.h"

#include <optional>

namespace pipec {

namespace {

/// The words as a variant with a queue for each flow of tensors, so that no transfer is behind another's, and no slots.
plan::Variant idealVariant(const schedule::Problem &problem, const schedule::Words &words) {
  plan::Variant variant;
  variant.stages = int32_t(problem.stages.size());
  variant.copies = problem.copies;
  const std::vector<std::vector<int32_t>> stages = problem.stagesByRank();
  std::vector<size_t> place(problem.stages.size()); // of a stage among its rank's
  Roller roll;
  for (const schedule::Word &word : words) {
    plan::Program &program = variant.programs.emplace_back();
    int32_t rank = program.rank = int32_t(variant.programs.size() - 1);
    program.queues.emplace_back();
    // By stage, as the rank counts its own, kind and payload.
    struct Flow {
      uint32_t operation = 0, queue = 0;
      int64_t count = 0; // 0: not met yet
    };
    constexpr size_t kKinds = plan::kKinds;
    const std::vector<int32_t> &own = stages[size_t(rank)];
    std::vector<Flow> flows(own.size() * kKinds * 2);
    auto elsewhere = [&](int32_t stage) { return stage >= 0 && problem.rankOf[size_t(stage)] != rank; };
    size_t headers = 0, transfers = 0;
    for (const schedule::Op &op : word) {
      headers += op.overlapped;
      if (op.letter != schedule::Letter::W)
        transfers += size_t(elsewhere(problem.before(op.stage))) + size_t(elsewhere(problem.after(op.stage)));
    }
    const size_t end = own.size() + 2; // all-reduces and optimizers
    program.instructions.reserve(word.size() + headers + transfers + end);
    program.waits.reserve(transfers + end);
    for (size_t s = 0; s != own.size(); ++s)
      place[size_t(own[s])] = s;
    auto append = [&](plan::Kind kind, plan::Payload of, int32_t stage, std::optional<plan::Wait> wait, auto make,
                      std::optional<plan::Wait> another = std::nullopt) {
      Flow &flow = flows[(place[size_t(stage)] * kKinds + size_t(kind)) * 2 + (of == plan::Payload::Forward)];
      if (flow.count == 0) {
        flow.operation = uint32_t(program.operations.size());
        plan::Operation &operation = program.operations.emplace_back();
        operation.kind = kind;
        operation.of = of;
        operation.stage = stage;
        make(operation);
        if (plan::isCommunication(kind)) {
          flow.queue = uint32_t(program.queues.size());
          program.queues.push_back({plan::QueueKind::Communicator, plan::Priority::Compute});
        }
      }
      program.instructions.push_back({flow.operation, flow.queue, uint32_t(program.waits.size()),
                                      uint32_t(wait.has_value()) + uint32_t(another.has_value()), int32_t(flow.count),
                                      0});
      for (const std::optional<plan::Wait> &each : {wait, another})
        if (each)
          program.waits.push_back(*each);
      return plan::Wait{flow.queue, false, ++flow.count, 0};
    };
    int64_t computed = 0;
    auto hop = [&](int32_t other) {
      return [&, other](plan::Operation &made) {
        made.peer = problem.rankOf[size_t(other)];
        const schedule::Link &link =
            made.kind == plan::Kind::Send ? problem.linkBetween(rank, made.peer) : problem.linkBetween(made.peer, rank);
        made.cost = schedule::wireTime(problem.stages[size_t(std::min(made.stage, other))].boundary, link.bandwidth);
        made.latency = link.latency;
      };
    };
    auto payloadOf = [](const schedule::Op &op) {
      return op.letter == schedule::Letter::F ? plan::Payload::Forward : plan::Payload::Backward;
    };
    // Receives before a pass and sends behind it. For an overlapped pair, all that both passes receive stands before
    // the pair's header, and all that they send behind the pair.
    auto receive = [&](const schedule::Op &op) -> std::optional<plan::Wait> {
      const int32_t from = op.letter == schedule::Letter::F ? problem.before(op.stage) : problem.after(op.stage);
      if (op.letter == schedule::Letter::W || !elsewhere(from))
        return std::nullopt;
      return append(plan::Kind::Recv, payloadOf(op), op.stage, std::nullopt, hop(from));
    };
    auto compute = [&](const schedule::Op &op, std::optional<plan::Wait> arrival) {
      const schedule::Stage &stage = problem.stages[size_t(op.stage)];
      const bool forward = op.letter == schedule::Letter::F, weight = op.letter == schedule::Letter::W;
      const plan::Kind kind = forward                            ? plan::Kind::Forward
                              : weight                           ? plan::Kind::BackwardWeight
                              : op.letter == schedule::Letter::B ? plan::Kind::BackwardInput
                                                                 : plan::Kind::Backward;
      append(kind, {}, op.stage, arrival, [&](plan::Operation &pass) {
        pass.activation = weight ? 0 : stage.activation;
        pass.context = op.letter == schedule::Letter::B ? 0 : stage.context;
        pass.cost = schedule::costOf(stage, op.letter);
      });
      ++computed;
    };
    auto send = [&](const schedule::Op &op) {
      const int32_t to = op.letter == schedule::Letter::F ? problem.after(op.stage) : problem.before(op.stage);
      if (op.letter != schedule::Letter::W && elsewhere(to))
        append(plan::Kind::Send, payloadOf(op), op.stage, plan::Wait{0, false, computed, 0}, hop(to));
    };
    for (size_t at = 0; at != word.size(); ++at) {
      const schedule::Op &op = word[at];
      const std::optional<plan::Wait> arrival = receive(op);
      if (!op.overlapped) {
        compute(op, arrival);
        send(op);
        continue;
      }
      const schedule::Op &with = word[++at];
      append(
          plan::Kind::Overlapped, {}, op.stage, arrival,
          [&](plan::Operation &header) { header.cost = schedule::pairCost(problem, op, with); }, receive(with));
      ++computed;
      for (const schedule::Op *each : {&op, &with})
        compute(*each, std::nullopt);
      for (const schedule::Op *each : {&op, &with})
        send(*each);
    }
    std::optional<plan::Wait> reduced;
    if (int32_t partner = problem.partnerOf(rank); partner >= 0) {
      // Its stage tells it from the other all-reduce.
      reduced = append(plan::Kind::AllReduce, plan::Payload::Gradients, own.back(), plan::Wait{0, false, computed, 0},
                       [&](plan::Operation &reduce) {
                         reduce.group = std::min(rank, partner);
                         reduce.cost = schedule::copySumTime(problem, rank);
                       });
    }
    if (problem.globalNorm)
      reduced = append(plan::Kind::AllReduce, plan::Payload::Norm, own.front(),
                       reduced ? *reduced : plan::Wait{0, false, computed, 0},
                       [&](plan::Operation &reduce) { reduce.cost = *problem.globalNorm; });
    for (const int32_t stage : own)
      append(plan::Kind::Optimizer, {}, stage, reduced,
             [&](plan::Operation &optimizer) { optimizer.cost = problem.stages[size_t(stage)].optimizer; });
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
