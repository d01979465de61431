// Small plans made by hand: a straight pipeline, one stage a rank, all forwards and then all backwards, rolled into one
// segment each, and an optimizer at the end.
#pragma once

#include "runtime/plan/Plan.h"

#include <vector>

namespace pipec::test {

struct Pipeline {
  int32_t ranks = 2;
  int32_t microbatches = 4;
  plan::Time forward = 2'000'000'000; // 2 ms
  plan::Time backward = 4'000'000'000;
  plan::Time optimizer = 1'000'000'000;
  plan::Time wire = 100'000'000; // 0.1 ms
  plan::Time latency = 50'000'000;
  plan::Bytes bytes = 1 << 20;
  uint32_t ring = 2;
  bool shared = false; // one communicator queue for all transfers of a rank, else one a directed pair
};

/// A loop body whose items wait for items of the same or an earlier trip.
class Body {
public:
  struct After {
    size_t item;
    int64_t trips; // 0: of this trip; -2: two trips ago
  };
  explicit Body(plan::Program &program) : program(program) {}

  size_t add(const plan::Operation &operation, uint32_t queue) {
    plan::Instruction instruction;
    instruction.operation = uint32_t(program.operations.size());
    instruction.queue = queue;
    instruction.microbatchStride = 1;
    program.operations.push_back(operation);
    items.push_back({instruction, {}});
    return items.size() - 1;
  }
  void wait(size_t item, After after) { items[item].after.push_back(after); }

  /// Appends the segment. `done` counts what each queue has executed so far in the step.
  void roll(uint32_t trips, std::vector<int64_t> &done) {
    std::vector<int64_t> perTrip(done.size(), 0), position;
    for (const Item &item : items)
      position.push_back(perTrip[item.instruction.queue]++);
    program.step.push_back({uint32_t(program.instructions.size()), uint32_t(items.size()), trips});
    for (const Item &item : items) {
      plan::Instruction instruction = item.instruction;
      instruction.firstWait = uint32_t(program.waits.size());
      for (const After &after : item.after) {
        uint32_t queue = items[after.item].instruction.queue;
        program.waits.push_back(
            {queue, false, done[queue] + position[after.item] + 1 + after.trips * perTrip[queue], perTrip[queue]});
      }
      instruction.waits = uint32_t(program.waits.size()) - instruction.firstWait;
      program.instructions.push_back(instruction);
    }
    for (size_t q = 0; q < done.size(); ++q)
      done[q] += perTrip[q] * trips;
  }

private:
  struct Item {
    plan::Instruction instruction;
    std::vector<After> after;
  };
  plan::Program &program;
  std::vector<Item> items;
};

inline plan::Program makeProgram(const Pipeline &p, int32_t rank) {
  using plan::Kind;
  using plan::Payload;
  plan::Program program;
  program.rank = rank;
  program.stages = {rank};
  program.queues = {{plan::QueueKind::Device, plan::Priority::Compute}};
  auto queueOf = [&](int32_t peer, plan::Direction direction) {
    program.rings.push_back({peer, direction, p.ring, p.bytes});
    if (!p.shared || program.queues.size() == 1)
      program.queues.push_back({plan::QueueKind::Communicator, plan::Priority::Compute});
    return uint32_t(program.queues.size() - 1);
  };
  bool first = rank == 0, last = rank == p.ranks - 1;
  uint32_t fromPrevious = 0, toNext = 0, fromNext = 0, toPrevious = 0;
  if (!first)
    fromPrevious = queueOf(rank - 1, plan::Direction::Recv);
  if (!last)
    toNext = queueOf(rank + 1, plan::Direction::Send);
  if (!last)
    fromNext = queueOf(rank + 1, plan::Direction::Recv);
  if (!first)
    toPrevious = queueOf(rank - 1, plan::Direction::Send);

  std::vector<int64_t> done(program.queues.size(), 0);
  // One phase: receive, compute, send, for each microbatch.
  auto phase = [&](Kind kind, Payload of, plan::Time cost, bool receives, int32_t from, uint32_t fromQueue, bool sends,
                   int32_t to, uint32_t toQueue) {
    Body body(program);
    size_t recv = 0, send = 0;
    if (receives)
      recv = body.add({Kind::Recv, of, rank, from, p.wire, p.latency, p.bytes, 0, 0}, fromQueue);
    size_t work = body.add({kind, Payload::None, rank, -1, cost, 0, 0, 1 << 20, 0}, 0);
    if (sends)
      send = body.add({Kind::Send, of, rank, to, p.wire, p.latency, p.bytes, 0, 0}, toQueue);
    if (receives) {
      body.wait(recv, {work, -int64_t(p.ring)}); // its slot is free
      body.wait(work, {recv, 0});
    }
    if (sends) {
      body.wait(work, {send, -int64_t(p.ring)});
      body.wait(send, {work, 0});
    }
    body.roll(uint32_t(p.microbatches), done);
  };
  phase(Kind::Forward, Payload::Forward, p.forward, !first, rank - 1, fromPrevious, !last, rank + 1, toNext);
  phase(Kind::Backward, Payload::Backward, p.backward, !last, rank + 1, fromNext, !first, rank - 1, toPrevious);
  // The optimizer also waits for all sends, so that a step's slots are free before the next step's work.
  Body body(program);
  body.add({Kind::Optimizer, Payload::None, rank, -1, p.optimizer, 0, 0, 0, 0}, 0);
  body.roll(1, done);
  plan::Instruction &optimizer = program.instructions.back();
  optimizer.microbatchStride = 0;
  for (uint32_t q = 1; q < program.queues.size(); ++q) {
    program.waits.push_back({q, false, done[q], 0});
    ++optimizer.waits;
  }
  // And each step's receives wait for the previous step's work, which read the slots.
  for (plan::Instruction &instruction : program.instructions)
    if (program.operations[instruction.operation].kind == Kind::Recv) {
      uint32_t at = uint32_t(program.waits.size());
      for (uint32_t w = 0; w < instruction.waits; ++w)
        program.waits.push_back(program.waits[instruction.firstWait + w]);
      program.waits.push_back({0, true, done[0], 0});
      instruction.firstWait = at;
      ++instruction.waits;
    }
  return program;
}

inline plan::Plan makePlan(const Pipeline &p) {
  plan::Plan plan;
  plan::Variant &variant = plan.variants.emplace_back();
  variant.name = "by hand";
  variant.stages = p.ranks;
  variant.microbatches = p.microbatches;
  for (int32_t rank = 0; rank < p.ranks; ++rank) {
    variant.programs.push_back(makeProgram(p, rank));
    plan.processes.push_back({rank, 0, 0});
  }
  return plan;
}

} // namespace pipec::test
