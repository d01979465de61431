// 1F1B as a plan: each rank's compute order first, then its transfers around it, then the waits that both need.
#include "test/plan/MakePlan.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace pipec::plan::test {
namespace {

/// Makes one rank's program: gathers its instructions in issue order with their waits.
class Builder {
public:
  Builder(const Make &make, int32_t rank) : make(make), rank(rank) {
    program.rank = rank;
    for (int32_t i = 0; i < make.stagesPerRank; ++i)
      program.stages.push_back(rank * make.stagesPerRank + i);
    program.queues.push_back({QueueKind::Device, Priority::Compute});
    if (make.deferred)
      weightsQueue = addQueue({QueueKind::Device, Priority::Weights});
    program.staticBytes = make.staticBytes;
    program.workspace = make.workspace;
  }

  Program build() {
    const int32_t m = make.microbatches;
    if (!make.backward) {
      for (int32_t i = 0; i < m; ++i)
        forward(i);
    } else {
      const int32_t warmUp = std::min(m, make.ranks - rank - (make.overlapped > 0 ? 0 : 1));
      for (int32_t i = 0; i < warmUp; ++i)
        forward(i);
      for (int32_t i = warmUp; i < m; ++i) {
        if (make.overlapped > 0) {
          pair(i, i - warmUp);
          continue;
        }
        forward(i);
        backward(i - warmUp);
      }
      for (int32_t i = m - warmUp; i < m; ++i)
        backward(i);
    }
    Wait reduced, summed;
    const bool sums = make.shared > 0 && make.optimizer && make.backward && (rank == 0 || rank == make.ranks - 1);
    if (sums) {
      next.push_back({0, false, counts[0], 0});
      if (make.deferred)
        next.push_back({weightsQueue, false, counts[weightsQueue], 0});
      summed.queue = addQueue({QueueKind::Communicator, Priority::Compute});
      summed.base = add(sharedSum(), summed.queue, 0);
    }
    if (make.norm) {
      next.push_back({0, false, counts[0], 0});
      if (make.deferred)
        next.push_back({weightsQueue, false, counts[weightsQueue], 0});
      if (sums)
        next.push_back(summed);
      reduced.queue = addQueue({QueueKind::Communicator, Priority::Compute});
      reduced.base = add(operation(Kind::AllReduce, program.stages.front()), reduced.queue, 0);
    }
    if (make.optimizer && make.backward)
      for (const int32_t stage : program.stages) {
        if (make.norm)
          next.push_back(reduced);
        if (sums)
          next.push_back(summed);
        if (make.deferred)
          next.push_back({weightsQueue, false, counts[weightsQueue], 0});
        add(operation(Kind::Optimizer, stage), 0, 0);
      }
    meetStepBefore();
    setStep(program, instructions, waits, make.rolled);
    return std::move(program);
  }

private:
  struct Edge { // the transfers of one peer and direction
    uint32_t queue = 0;
    std::vector<size_t> takes;  // of the n-th transfer, the instruction that takes its slot
    std::vector<int64_t> frees; // and how far which queue must be for it to be free
    uint32_t freeQueue = 0;
  };
  const Make &make;
  const int32_t rank;
  Program program;
  uint32_t weightsQueue = 0;
  std::map<std::pair<int32_t, Direction>, Edge> edges;
  std::map<uint32_t, int64_t> counts; // instructions on each queue so far
  std::vector<Instruction> instructions;
  std::vector<std::vector<Wait>> waits;
  std::vector<Wait> next; // of the instruction to come

  uint32_t addQueue(Queue queue) {
    program.queues.push_back(queue);
    return uint32_t(program.queues.size() - 1);
  }

  Edge &edge(int32_t peer, Direction direction) {
    const auto [at, fresh] = edges.try_emplace({peer, direction});
    if (fresh) {
      at->second.queue = addQueue({QueueKind::Communicator, Priority::Compute});
      at->second.freeQueue = direction == Direction::Send ? at->second.queue : 0;
      program.rings.push_back({peer, direction, make.slots, make.boundary});
    }
    return at->second;
  }

  uint32_t operation(Kind kind, int32_t stage, Payload of = Payload::None, int32_t peer = -1) {
    Operation o;
    o.kind = kind;
    o.of = isCollective(kind) ? Payload::Norm : of;
    o.stage = stage;
    o.peer = peer;
    const Time costs[] = {
        make.forward,  make.backwardInput, make.backwardWeight, make.backwardInput + make.backwardWeight,
        make.transfer, make.transfer,      make.optimizerCost,  make.normCost};
    o.cost = kind == Kind::Overlapped ? make.overlapped : kind == Kind::Recompute ? make.forward : costs[int(kind)];
    o.latency = isTransfer(kind) ? make.latency : 0;
    o.bytes = isTransfer(kind) ? make.boundary : kind == Kind::AllReduce ? 8 : 0;
    if (make.backward) {
      o.activation = isCompute(kind) && kind != Kind::BackwardWeight ? make.activation : 0;
      o.context = isCompute(kind) && kind != Kind::BackwardInput ? make.context : 0;
    }
    if (make.recompute && (kind == Kind::Forward || kind == Kind::Recompute))
      o.bytes = make.input;
    if (make.recompute && kind == Kind::Forward)
      o.activation = o.context = 0;
    const auto at = std::find(program.operations.begin(), program.operations.end(), o);
    if (at != program.operations.end())
      return uint32_t(at - program.operations.begin());
    program.operations.push_back(o);
    return uint32_t(program.operations.size() - 1);
  }

  uint32_t sharedSum() {
    Operation o;
    o.kind = Kind::AllReduce;
    o.of = Payload::Shared;
    o.stage = program.stages.front();
    o.layers = 1;
    o.bytes = o.end = make.shared;
    o.cost = make.sharedCost;
    o.group = 0;
    program.operations.push_back(o);
    return uint32_t(program.operations.size() - 1);
  }

  /// Its place on its queue, from 1.
  int64_t add(uint32_t operation, uint32_t queue, int32_t microbatch) {
    instructions.push_back({operation, queue, 0, 0, microbatch, 0});
    waits.push_back(std::move(next));
    next.clear();
    return ++counts[queue];
  }

  /// The instruction to come takes the slot of the edge's next transfer.
  void take(Edge &edge) {
    const size_t n = edge.takes.size();
    if (n >= make.slots)
      next.push_back({edge.freeQueue, false, edge.frees[n - make.slots], 0});
    edge.takes.push_back(instructions.size());
  }

  void receive(Payload of, int32_t stage, int32_t peer, int32_t microbatch) {
    Edge &from = edge(peer, Direction::Recv);
    take(from);
    const int64_t place = add(operation(Kind::Recv, stage, of, peer), from.queue, microbatch);
    next.push_back({from.queue, false, place, 0});
  }

  void work(Kind kind, Payload of, int32_t stage, int32_t from, int32_t to, int32_t microbatch) {
    if (make.recompute && of == Payload::Backward)
      add(operation(Kind::Recompute, stage), 0, microbatch);
    if (from >= 0)
      receive(of, stage, from, microbatch);
    if (to >= 0)
      take(edge(to, Direction::Send));
    const int64_t place = add(operation(kind, stage), 0, microbatch);
    if (from >= 0)
      edge(from, Direction::Recv).frees.push_back(place);
    if (to >= 0) {
      Edge &out = edge(to, Direction::Send);
      next.push_back({0, false, place, 0});
      out.frees.push_back(add(operation(Kind::Send, stage, of, to), out.queue, microbatch));
    }
    if (kind == Kind::BackwardInput) {
      if (make.deferred)
        next.push_back({0, false, place, 0});
      add(operation(Kind::BackwardWeight, stage), weightsQueue, microbatch);
    }
  }

  /// Both start when all that either takes is there, and their sends when both have ended.
  void pair(int32_t forward, int32_t backward) {
    const int32_t stage = rank, above = rank - 1, below = rank + 1 < make.ranks ? rank + 1 : -1;
    std::vector<Wait> gathered;
    for (const auto &[of, from, microbatch] :
         {std::tuple(Payload::Forward, above, forward), std::tuple(Payload::Backward, below, backward)}) {
      if (from >= 0)
        receive(of, stage, from, microbatch);
      gathered.insert(gathered.end(), next.begin(), next.end());
      next.clear();
    }
    next = std::move(gathered);
    for (const int32_t to : {below, above})
      if (to >= 0)
        take(edge(to, Direction::Send));
    add(operation(Kind::Overlapped, stage), 0, 0);
    const int64_t first = add(operation(Kind::Forward, stage), 0, forward);
    const int64_t second = add(operation(Kind::Backward, stage), 0, backward);
    const auto leave = [&](Payload of, int32_t from, int32_t to, int64_t place, int32_t microbatch) {
      if (from >= 0)
        edge(from, Direction::Recv).frees.push_back(place);
      if (to < 0)
        return;
      next.push_back({0, false, place, 0});
      Edge &out = edge(to, Direction::Send);
      out.frees.push_back(add(operation(Kind::Send, stage, of, to), out.queue, microbatch));
    };
    leave(Payload::Forward, above, below, first, forward);
    leave(Payload::Backward, below, above, second, backward);
  }

  void forward(int32_t microbatch) {
    for (const int32_t stage : program.stages) {
      const bool first = stage == program.stages.front(), last = stage == program.stages.back();
      work(Kind::Forward, Payload::Forward, stage, first ? rank - 1 : -1, last && rank + 1 < make.ranks ? rank + 1 : -1,
           microbatch);
    }
  }

  void backward(int32_t microbatch) {
    const Kind kind = make.split || make.deferred ? Kind::BackwardInput : Kind::Backward;
    for (auto stage = program.stages.rbegin(); stage != program.stages.rend(); ++stage) {
      const bool first = *stage == program.stages.front(), last = *stage == program.stages.back();
      work(kind, Payload::Backward, *stage, last && rank + 1 < make.ranks ? rank + 1 : -1, first ? rank - 1 : -1,
           microbatch);
    }
  }

  /// The first transfers of a step take over from the last of the step before that used their slot.
  void meetStepBefore() {
    for (auto &[key, edge] : edges)
      for (size_t n = 0; n < make.slots; ++n) {
        const size_t last = n + (edge.takes.size() - 1 - n) / make.slots * make.slots;
        waits[edge.takes[n]].push_back({edge.freeQueue, true, edge.frees[last], 0});
      }
  }
};

/// Whether `c` follows `b` as `b` follows `a`.
bool even(int64_t a, int64_t b, int64_t c) { return c - b == b - a; }

bool sameButAdvanced(const Instruction &a, const Instruction &b) {
  return a.operation == b.operation && a.queue == b.queue;
}

bool sameButAdvanced(const std::vector<Wait> &a, const std::vector<Wait> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Wait &x, const Wait &y) {
    return x.queue == y.queue && x.previousStep == y.previousStep;
  });
}

} // namespace

void setStep(Program &program, const std::vector<Instruction> &instructions,
             const std::vector<std::vector<Wait>> &waits, bool rolled) {
  std::vector<int> inPair(instructions.size(), 0); // behind its header: 1 and 2
  for (size_t i = 0; i + 2 < instructions.size(); ++i)
    if (program.operations[instructions[i].operation].kind == Kind::Overlapped)
      inPair[i + 1] = 1, inPair[i + 2] = 2;
  const auto repeats = [&](size_t at, size_t length, size_t trip) {
    for (size_t i = at; i < at + length; ++i) {
      const size_t to = i + trip * length;
      if (to >= instructions.size() || inPair[at] != 0 || inPair[i] != inPair[to] ||
          !sameButAdvanced(instructions[i], instructions[to]) || !sameButAdvanced(waits[i], waits[to]))
        return false;
      if (trip < 2)
        continue;
      const size_t b = to - length, a = b - length;
      if (!even(instructions[a].microbatch, instructions[b].microbatch, instructions[to].microbatch))
        return false;
      for (size_t w = 0; w < waits[i].size(); ++w)
        if (!even(waits[a][w].base, waits[b][w].base, waits[to][w].base))
          return false;
    }
    return true;
  };
  program.instructions.clear();
  program.waits.clear();
  program.step.clear();
  for (size_t at = 0; at < instructions.size();) {
    size_t length = 1, trips = 1;
    for (size_t body = 1; rolled && body <= 64; ++body) {
      size_t count = 1;
      while (repeats(at, body, count))
        ++count;
      if (count > 2 && count * body > length * trips)
        length = body, trips = count;
    }
    if (trips > 1 || program.step.empty() || program.step.back().trips > 1)
      program.step.push_back({uint32_t(program.instructions.size()), 0, uint32_t(trips)});
    program.step.back().count += uint32_t(length);
    for (size_t i = at; i < at + length; ++i) {
      Instruction instruction = instructions[i];
      instruction.firstWait = uint32_t(program.waits.size());
      instruction.waits = uint32_t(waits[i].size());
      if (trips > 1)
        instruction.microbatchStride = instructions[i + length].microbatch - instruction.microbatch;
      for (size_t w = 0; w < waits[i].size(); ++w) {
        Wait wait = waits[i][w];
        if (trips > 1)
          wait.stride = waits[i + length][w].base - wait.base;
        program.waits.push_back(wait);
      }
      program.instructions.push_back(instruction);
    }
    at += length * trips;
  }
}

Plan makePlan(const Make &make) {
  Plan plan;
  plan.specHash = 0x0123456789abcdef;
  Variant variant;
  variant.name = "1f1b";
  variant.stages = make.ranks * make.stagesPerRank;
  variant.microbatches = make.microbatches;
  variant.memoryLimit = make.memoryLimit;
  for (int32_t r = 0; r < make.ranks; ++r) {
    variant.programs.push_back(Builder(make, r).build());
    plan.processes.push_back({r, 0, 0});
  }
  if (make.shared > 0) {
    const std::vector<int32_t> stages{0, (make.ranks - 1) * make.stagesPerRank};
    variant.shared = {{stages, stages, make.shared}};
    plan.groups = {{{0, make.ranks - 1}}};
  }
  plan.variants.push_back(std::move(variant));
  return plan;
}

Plan makeCopies() {
  Make make;
  make.ranks = 1;
  make.microbatches = 4;
  make.norm = true;
  make.rolled = false;
  Plan plan = makePlan(make);
  Variant &variant = plan.variants.front();
  variant.stages = variant.copies = variant.slices = 2;
  variant.name = variant.schedule = "copies";
  Program &one = variant.programs.front();
  // F, BW, …, as one rank runs them: both forwards of a sequence come before its backwards, the last slice first.
  const uint32_t forward = one.instructions[0].operation, backward = one.instructions[1].operation;
  for (int32_t i = 0; i != 8; ++i) {
    Instruction &instruction = one.instructions[size_t(i)];
    const int32_t sequence = i / 4, slice = i % 4;
    instruction.operation = slice < 2 ? forward : backward;
    instruction.microbatch = 2 * sequence + (slice < 2 ? slice : 3 - slice);
  }
  for (Operation &o : one.operations)
    if (o.kind == Kind::AllReduce) {
      o.of = Payload::Gradients;
      o.group = 0;
      o.bytes = Bytes(1) << 30;
    }
  Program other = one;
  other.rank = 1;
  other.stages = {1};
  for (Operation &o : other.operations)
    o.stage = 1;
  variant.programs.push_back(std::move(other));
  plan.processes = {{0, 0, 0}, {1, 0, 0}};
  plan.groups = {{{0, 1}}};
  const Time step = 4 * (make.forward + make.backwardInput + make.backwardWeight) + make.normCost + make.optimizerCost;
  variant.certificate = {step, step, LeastTime::proven(step), LeastTime::proven(step), Bound::Work, Bound::Work};
  return plan;
}

} // namespace pipec::plan::test
