// Small plans made by hand of a pipeline with replicas: all forwards, then all backwards, nothing rolled. The first
// forward and the last backward come in parts, a part a bundle; sums follow each part, updates each sum, and the next
// step's forwards wait for those of their layers.
#pragma once

#include "runtime/plan/Plan.h"

#include <algorithm>
#include <map>
#include <vector>

namespace pipec::test {

struct Replicated {
  int32_t ranks = 1;
  int32_t degree = 2;
  int32_t microbatches = 2;
  int32_t layers = 4; // of a stage
  int32_t bundle = 1; // layers
  bool parts = true;  // else the sums come after whole passes
  enum class Sums { AllReduce, Decoupled, Sharded } sums = Sums::AllReduce;
  bool norm = false;
  plan::Bytes piece = 0; // of an all-reduce; 0: none is cut
  plan::Bytes layerBytes = 4000;
  plan::Bytes boundary = 1000;
  plan::Time pass = 2'000'000'000;       // of a stage
  plan::Time collective = 1'000'000'000; // of a bundle
  plan::Time update = 100'000'000;
};

/// One rank's program.
class ReplicatedProgram {
public:
  ReplicatedProgram(const Replicated &wanted, int32_t rank) : p(wanted), rank(rank) {
    program.rank = rank;
    program.stages = {rank};
    for (plan::Priority priority : {plan::Priority::Compute, plan::Priority::Updates})
      program.queues.push_back({plan::QueueKind::Device, priority});
    for (int32_t q = 0; q < 5; ++q) // of collectives, then for each direction with each neighbour
      program.queues.push_back({plan::QueueKind::Communicator, plan::Priority::Compute});
    counts.resize(program.queues.size());
  }

  plan::Program make() {
    for (int32_t m = 0; m < p.microbatches; ++m)
      forward(m);
    for (int32_t m = 0; m < p.microbatches; ++m)
      backward(m);
    exchange();
    program.step = {{0, uint32_t(program.instructions.size()), 1}};
    finishWaits();
    return program;
  }

private:
  enum : uint32_t { kCompute, kUpdates, kSums, kFromBefore, kToAfter, kFromAfter, kToBefore };
  struct Wait {
    size_t instruction;
    plan::Wait wait;
  };
  struct Bundle {
    int32_t first = 0, count = 0;
    int64_t backwards = 0;             // compute instructions after which its gradients are there
    int64_t updated = 0, gathered = 0; // counts of their queues; gathered 0: there is no gather
  };

  /// Returns what its queue counts then.
  int64_t add(const plan::Operation &operation, uint32_t queue, int32_t microbatch,
              std::initializer_list<plan::Wait> needs = {}) {
    plan::Instruction instruction;
    const auto known = std::find(program.operations.begin(), program.operations.end(), operation);
    instruction.operation = uint32_t(known - program.operations.begin());
    if (known == program.operations.end())
      program.operations.push_back(operation);
    instruction.queue = queue;
    instruction.microbatch = microbatch;
    for (const plan::Wait &wait : needs)
      if (wait.base > 0)
        waits.push_back({program.instructions.size(), wait});
    program.instructions.push_back(instruction);
    return ++counts[queue];
  }
  static plan::Wait after(uint32_t queue, int64_t count) { return {queue, false, count, 0}; }
  plan::Operation transfer(plan::Kind kind, plan::Payload of, int32_t peer) {
    const auto direction = kind == plan::Kind::Send ? plan::Direction::Send : plan::Direction::Recv;
    const plan::Ring ring{peer, direction, uint32_t(p.microbatches), p.boundary};
    if (std::find(program.rings.begin(), program.rings.end(), ring) == program.rings.end())
      program.rings.push_back(ring);
    return {kind, of, rank, peer, 1'000'000, 0, p.boundary};
  }
  plan::Operation pass(plan::Kind kind, const Bundle &part) const {
    const bool whole = part.count == p.layers;
    plan::Operation operation{kind, plan::Payload::None, rank, -1, p.pass * part.count / p.layers};
    operation.firstLayer = whole ? 0 : part.first;
    operation.layers = whole ? 0 : part.count;
    return operation;
  }
  std::vector<Bundle> partsOf(bool cut) const {
    std::vector<Bundle> parts;
    const int32_t each = cut && p.parts ? p.bundle : p.layers;
    for (int32_t first = 0; first < p.layers; first += each)
      parts.push_back({first, std::min(each, p.layers - first)});
    return parts;
  }

  void forward(int32_t m) {
    int64_t received = 0, done = 0;
    if (rank > 0)
      received = add(transfer(plan::Kind::Recv, plan::Payload::Forward, rank - 1), kFromBefore, m);
    for (const Bundle &part : partsOf(m == 0)) {
      if (m == 0)
        firsts.emplace_back(part, program.instructions.size());
      done = add(pass(plan::Kind::Forward, part), kCompute, m, {after(kFromBefore, part.first == 0 ? received : 0)});
    }
    if (rank + 1 < p.ranks)
      add(transfer(plan::Kind::Send, plan::Payload::Forward, rank + 1), kToAfter, m, {after(kCompute, done)});
  }

  void backward(int32_t m) {
    int64_t received = 0, done = 0;
    if (rank + 1 < p.ranks)
      received = add(transfer(plan::Kind::Recv, plan::Payload::Backward, rank + 1), kFromAfter, m);
    std::vector<Bundle> parts = partsOf(m + 1 == p.microbatches);
    std::reverse(parts.begin(), parts.end());
    for (Bundle &part : parts) {
      const bool last = part.first + part.count == p.layers;
      done = add(pass(plan::Kind::Backward, part), kCompute, m, {after(kFromAfter, last ? received : 0)});
      part.backwards = done;
    }
    if (m + 1 == p.microbatches)
      ended = parts;
    if (rank > 0)
      add(transfer(plan::Kind::Send, plan::Payload::Backward, rank - 1), kToBefore, m, {after(kCompute, done)});
  }

  plan::Operation collective(plan::Kind kind, const Bundle &bundle, plan::Payload of) const {
    plan::Operation operation{kind, of, rank, -1, p.collective, 0, bundle.count * p.layerBytes};
    operation.group = rank;
    operation.firstLayer = bundle.first;
    operation.layers = bundle.count;
    operation.begin = bundle.first * p.layerBytes;
    operation.end = operation.begin + operation.bytes;
    return operation;
  }
  void sum(const Bundle &bundle, int64_t backwards) {
    const auto kind = p.sums == Replicated::Sums::AllReduce ? plan::Kind::AllReduce : plan::Kind::ReduceScatter;
    plan::Operation whole = collective(kind, bundle, plan::Payload::Gradients), part = whole;
    for (plan::Bytes at = whole.begin; at < whole.end; at = part.end) {
      part.begin = at;
      part.end = p.piece == 0 ? whole.end : std::min(whole.end, at + p.piece);
      part.bytes = part.end - part.begin;
      add(part, kSums, 0, {after(kCompute, backwards)});
    }
  }

  void exchange() {
    std::vector<Bundle> bundles;
    for (int32_t first = 0; first < p.layers; first += p.bundle)
      bundles.push_back({first, std::min(p.bundle, p.layers - first)});
    for (auto bundle = bundles.rbegin(); bundle != bundles.rend(); ++bundle)
      for (const Bundle &part : ended)
        if (part.first <= bundle->first && bundle->first < part.first + part.count)
          sum(*bundle, part.backwards);
    const int64_t summed = counts[kSums];
    int64_t normed = 0;
    if (p.norm)
      normed = add({plan::Kind::AllReduce, plan::Payload::Norm, 0, -1, 1'000'000, 0, 8}, kSums, 0);
    for (Bundle &bundle : bundles) {
      if (p.sums == Replicated::Sums::Decoupled)
        bundle.gathered =
            add(collective(plan::Kind::AllGather, bundle, plan::Payload::Gradients), kSums, 0, {after(kSums, summed)});
      plan::Operation update{plan::Kind::Optimizer, plan::Payload::None, rank, -1, p.update};
      update.firstLayer = bundle.first;
      update.layers = bundle.count;
      bundle.updated = add(update, kUpdates, 0, {after(kSums, std::max({summed, normed, bundle.gathered}))});
      if (p.sums == Replicated::Sums::Sharded)
        bundle.gathered = add(collective(plan::Kind::AllGather, bundle, plan::Payload::Weights), kSums, 0,
                              {after(kUpdates, bundle.updated)});
    }
    for (const auto &[part, instruction] : firsts)
      for (const Bundle &bundle : bundles)
        if (bundle.first < part.first + part.count && part.first < bundle.first + bundle.count)
          for (plan::Wait wait : {after(kUpdates, bundle.updated), after(kSums, bundle.gathered)})
            if (wait.previousStep = true; wait.base > 0)
              waits.push_back({instruction, wait});
    // A step's slots are free before the next one's work.
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const plan::Kind kind = program.operations[program.instructions[i].operation].kind;
      if (kind == plan::Kind::Recv)
        waits.push_back({i, {kCompute, true, counts[kCompute], 0}});
      if (kind == plan::Kind::Forward || kind == plan::Kind::Backward)
        for (const uint32_t queue : {kToAfter, kToBefore})
          if (counts[queue] > 0)
            waits.push_back({i, {queue, true, counts[queue], 0}});
    }
  }

  void finishWaits() {
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      program.instructions[i].firstWait = uint32_t(program.waits.size());
      for (const Wait &each : waits)
        if (each.instruction == i)
          program.waits.push_back(each.wait);
      program.instructions[i].waits = uint32_t(program.waits.size()) - program.instructions[i].firstWait;
    }
  }

  const Replicated p;
  const int32_t rank;
  plan::Program program;
  std::vector<int64_t> counts;
  std::vector<Wait> waits;
  std::vector<std::pair<Bundle, size_t>> firsts; // parts of the first forward, and their instructions
  std::vector<Bundle> ended;                     // parts of the last backward
};

inline plan::Plan makeReplicated(const Replicated &p) {
  plan::Plan plan;
  plan::Variant &variant = plan.variants.emplace_back();
  variant.name = "by hand";
  variant.stages = p.ranks;
  variant.microbatches = p.microbatches;
  variant.cut.assign(size_t(p.ranks), p.layers);
  const bool sharded = p.sums == Replicated::Sums::Sharded;
  for (int32_t rank = 0; rank < p.ranks; ++rank) {
    variant.programs.push_back(ReplicatedProgram(p, rank).make());
    for (int32_t l = 0; l < p.layers; ++l)
      variant.layers.push_back({rank, p.layerBytes, sharded ? p.layerBytes : 0, sharded});
    plan::Group &group = plan.groups.emplace_back();
    for (int32_t replica = 0; replica < p.degree; ++replica) {
      group.members.push_back(int32_t(plan.processes.size()));
      plan.processes.push_back({rank, replica, 0});
    }
  }
  return plan;
}

} // namespace pipec::test
