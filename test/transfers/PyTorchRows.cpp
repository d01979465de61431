#include "test/transfers/PyTorchRows.h"

#include <algorithm>
#include <map>
#include <set>

namespace pipec::test {

using Kind = Action::Kind;
using schedule::Letter;
using schedule::Problem;

namespace {

Kind torchKindOf(Letter letter) { return letter == Letter::F ? Kind::F : letter == Letter::W ? Kind::W : Kind::B; }

/// The words' letters with their microbatches.
TorchRows numbered(const schedule::Words &words) {
  TorchRows rows;
  for (const schedule::Word &word : words) {
    std::map<std::pair<int32_t, Letter>, int32_t> counts;
    std::vector<Action> &row = rows.emplace_back();
    for (const schedule::Op &op : word)
      row.push_back({torchKindOf(op.letter), op.stage, counts[{op.stage, op.letter}]++});
  }
  return rows;
}

/// The stage that takes what an action gives, and whether there is one on another rank.
bool leaves(const Problem &problem, const Action &action, int32_t &to) {
  if (action.kind != Kind::F && action.kind != Kind::B)
    return false;
  to = action.stage + (action.kind == Kind::F ? 1 : -1);
  return to >= 0 && to < int32_t(problem.stages.size()) &&
         problem.rankOf[size_t(to)] != problem.rankOf[size_t(action.stage)];
}

/// The stage that gives what an action takes; -1 if none does.
int32_t giver(const Problem &problem, const Action &action) {
  const int32_t from = action.kind == Kind::F ? action.stage - 1 : action.kind == Kind::B ? action.stage + 1 : -1;
  return from < int32_t(problem.stages.size()) ? from : -1;
}

/// What it takes has come, seen from what its rank has done: by a receive, or from a neighbour on the same rank.
bool hasInput(const Problem &problem, const Action &action, const std::set<Action> &done) {
  const int32_t from = giver(problem, action);
  return from < 0 ||
         done.count({action.kind == Kind::F ? Kind::RecvF : Kind::RecvB, action.stage, action.microbatch}) ||
         done.count({action.kind, from, action.microbatch});
}

} // namespace

const char *nameOf(Queues queues) {
  return queues == Queues::PerEdge ? "per_edge" : queues == Queues::PerPair ? "per_pair" : "shared";
}

TorchRows placedByTorch(const Problem &problem, const schedule::Words &words) {
  const TorchRows passes = numbered(words);
  TorchRows rows(passes.size());
  std::vector<std::set<Action>> done(passes.size());
  std::vector<size_t> next(passes.size());
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t rank = 0; rank != passes.size(); ++rank) {
      if (next[rank] == passes[rank].size() || !hasInput(problem, passes[rank][next[rank]], done[rank]))
        continue;
      const Action action = passes[rank][next[rank]++];
      progress = true;
      rows[rank].push_back(action);
      done[rank].insert(action);
      int32_t to = 0;
      if (!leaves(problem, action, to))
        continue;
      const bool forward = action.kind == Kind::F;
      const auto other = size_t(problem.rankOf[size_t(to)]);
      rows[rank].push_back({forward ? Kind::SendF : Kind::SendB, action.stage, action.microbatch});
      rows[other].push_back({forward ? Kind::RecvF : Kind::RecvB, to, action.microbatch});
      done[other].insert(rows[other].back());
    }
  }
  return rows;
}

int64_t torchSteps(const Problem &problem, const TorchRows &rows) {
  std::vector<std::set<Action>> done(rows.size());
  std::vector<size_t> next(rows.size());
  auto over = [&](size_t rank) { return next[rank] == rows[rank].size(); };
  auto can = [&](size_t rank) {
    const Action &action = rows[rank][next[rank]];
    auto sentBy = [&](int32_t stage, Kind kind) {
      return done[size_t(problem.rankOf[size_t(stage)])].count({kind, stage, action.microbatch}) != 0;
    };
    switch (action.kind) {
    case Kind::W:
      return true;
    case Kind::F:
    case Kind::B:
      return hasInput(problem, action, done[rank]);
    case Kind::SendF:
      return done[rank].count({Kind::F, action.stage, action.microbatch}) != 0;
    case Kind::SendB:
      return done[rank].count({Kind::B, action.stage, action.microbatch}) != 0;
    case Kind::RecvF:
      return sentBy(action.stage - 1, Kind::SendF);
    case Kind::RecvB:
      return sentBy(action.stage + 1, Kind::SendB);
    }
    return false;
  };
  auto retire = [&](size_t rank) { done[rank].insert(rows[rank][next[rank]++]); };
  for (int64_t steps = 0;; ++steps) {
    bool left = false, progress = false;
    std::vector<size_t> waiting;
    for (size_t rank = 0; rank != rows.size(); ++rank) {
      if (over(rank))
        continue;
      left = true;
      if (can(rank)) {
        retire(rank);
        progress = true;
      } else {
        waiting.push_back(rank);
      }
    }
    if (!left)
      return steps;
    for (size_t rank : waiting)
      if (can(rank))
        retire(rank);
    if (!progress)
      return -1;
  }
}

plan::Variant asTorchRuns(const Problem &problem, const TorchRows &rows, Queues queues) {
  plan::Variant variant;
  variant.stages = int32_t(problem.stages.size());
  variant.microbatches = problem.microbatches;
  for (size_t rank = 0; rank != rows.size(); ++rank) {
    plan::Program &program = variant.programs.emplace_back();
    program.rank = int32_t(rank);
    program.queues.push_back({plan::QueueKind::Device, plan::Priority::Compute});
    std::map<std::pair<Kind, int32_t>, uint32_t> operations;
    std::map<std::pair<int32_t, bool>, uint32_t> communicators;
    std::vector<int64_t> counts(1);
    std::map<Action, std::pair<uint32_t, int64_t>> received; // where, and the how many-th there
    auto operationOf = [&](const Action &action, int32_t peer, const schedule::Link &link, plan::Bytes bytes) {
      auto [it, isNew] = operations.try_emplace({action.kind, action.stage}, uint32_t(program.operations.size()));
      if (!isNew)
        return it->second;
      plan::Operation operation;
      const schedule::Stage &stage = problem.stages[size_t(action.stage)];
      operation.stage = action.stage;
      operation.peer = peer;
      const bool fused = problem.backward == schedule::BackwardMode::Fused;
      switch (action.kind) {
      case Kind::F:
        operation.kind = plan::Kind::Forward;
        operation.cost = stage.forward;
        break;
      case Kind::B:
        operation.kind = fused ? plan::Kind::Backward : plan::Kind::BackwardInput;
        operation.cost = fused ? stage.backward : stage.backwardInput;
        break;
      case Kind::W:
        operation.kind = plan::Kind::BackwardWeight;
        operation.cost = stage.backwardWeight;
        break;
      default:
        const bool sends = action.kind == Kind::SendF || action.kind == Kind::SendB;
        operation.kind = sends ? plan::Kind::Send : plan::Kind::Recv;
        operation.of =
            action.kind == Kind::SendF || action.kind == Kind::RecvF ? plan::Payload::Forward : plan::Payload::Backward;
        operation.cost = schedule::wireTime(bytes, link.bandwidth);
        operation.latency = link.latency;
        operation.bytes = bytes;
      }
      program.operations.push_back(operation);
      return it->second;
    };
    for (const Action &action : rows[rank]) {
      plan::Instruction instruction;
      instruction.microbatch = action.microbatch;
      instruction.firstWait = uint32_t(program.waits.size());
      if (action.kind == Kind::F || action.kind == Kind::B || action.kind == Kind::W) {
        instruction.operation = operationOf(action, -1, {}, 0);
        auto input =
            received.find({action.kind == Kind::F ? Kind::RecvF : Kind::RecvB, action.stage, action.microbatch});
        if (action.kind != Kind::W && input != received.end())
          program.waits.push_back({input->second.first, false, input->second.second, 0});
        ++counts[0];
      } else {
        const bool sends = action.kind == Kind::SendF || action.kind == Kind::SendB;
        const bool up = action.kind == Kind::SendF || action.kind == Kind::RecvB; // the other stage is the next
        const int32_t other = action.stage + (up ? 1 : -1), peer = problem.rankOf[size_t(other)];
        const schedule::Link &link =
            sends ? problem.linkBetween(int32_t(rank), peer) : problem.linkBetween(peer, int32_t(rank));
        instruction.operation =
            operationOf(action, peer, link, problem.stages[size_t(std::min(action.stage, other))].boundary);
        const std::pair key = queues == Queues::Shared    ? std::pair(-1, false)
                              : queues == Queues::PerPair ? std::pair(peer, false)
                                                          : std::pair(peer, sends);
        auto [it, isNew] = communicators.try_emplace(key, uint32_t(program.queues.size()));
        if (isNew) {
          program.queues.push_back({plan::QueueKind::Communicator, plan::Priority::Compute});
          counts.push_back(0);
        }
        instruction.queue = it->second;
        program.waits.push_back({0, false, counts[0], 0});
        received[action] = {it->second, ++counts[it->second]};
      }
      instruction.waits = uint32_t(program.waits.size()) - instruction.firstWait;
      program.instructions.push_back(instruction);
    }
    program.step = {{0, uint32_t(program.instructions.size()), 1}};
  }
  return variant;
}

TorchRows rowsOf(const plan::Variant &variant) {
  TorchRows rows;
  for (const plan::Program &program : variant.programs) {
    rows.emplace_back();
    for (plan::Cursor cursor(program); !cursor.done(); cursor.next()) {
      const plan::Step step = cursor.at();
      const plan::Operation &operation = *step.operation;
      const bool forward = operation.of == plan::Payload::Forward;
      Kind kind = Kind::F;
      switch (operation.kind) {
      case plan::Kind::Forward:
        break;
      case plan::Kind::BackwardInput:
      case plan::Kind::Backward:
        kind = Kind::B;
        break;
      case plan::Kind::BackwardWeight:
        kind = Kind::W;
        break;
      case plan::Kind::Send:
        kind = forward ? Kind::SendF : Kind::SendB;
        break;
      case plan::Kind::Recv:
        kind = forward ? Kind::RecvF : Kind::RecvB;
        break;
      default:
        continue;
      }
      rows.back().push_back({kind, operation.stage, int32_t(step.microbatch())});
    }
  }
  return rows;
}

} // namespace pipec::test
