// Two ranks and two replicas of each, written out: what a step of replicas has at its least.
#include "test/plan/MakeReplicas.h"

#include <utility>

namespace pipec::plan::test {
namespace {

constexpr Time kMs = 1'000'000'000;
constexpr Bytes kMiB = 1 << 20, kActivation = 64 * kMiB, kContext = 16 * kMiB, kBoundary = kMiB;

/// A rank's program: two microbatches of 1F1B, of which the first F and the last BW are cut into layers.
class Writer {
public:
  Writer(int32_t rank, const Replicated &how) : rank(rank), how(how) {
    program.rank = rank;
    program.stages = {rank};
    program.queues = {{}, {QueueKind::Device, Priority::Updates}};
    for (int queue = 0; queue != 3 + int(how.norm); ++queue)
      program.queues.push_back({QueueKind::Communicator, Priority::Compute});
    for (const Direction direction : {Direction::Send, Direction::Recv})
      program.rings.push_back({1 - rank, direction, 2, kBoundary});
    program.workspace = kMiB;
    program.staticBytes = 100 * kMiB;
  }

  Program write() {
    forward(0);
    if (rank == 0)
      forward(1);
    backward(0);
    if (rank == 1)
      forward(1);
    backward(1);
    exchange();
    setStep(program, instructions, waits, false);
    return std::move(program);
  }

private:
  /// On queue 0; the layers from `first` on, all of them without `layers`.
  int64_t pass(Kind kind, int32_t microbatch, int32_t first, int32_t layers, bool holds, std::vector<Wait> its) {
    Operation o;
    o.kind = kind;
    o.stage = rank;
    o.firstLayer = first;
    o.layers = layers;
    o.cost = (kind == Kind::Forward ? 2 : 4) * kMs / (layers == 0 ? 1 : 2);
    o.activation = holds ? kActivation : 0;
    o.context = holds ? kContext : 0;
    return add(o, kCompute, microbatch, std::move(its));
  }
  void forward(int32_t microbatch) {
    std::vector<Wait> its;
    if (rank == 1)
      its.push_back({kRecvs, false, transfer(Kind::Recv, Payload::Forward, microbatch, passes + 1), 0});
    const Wait sent{kSends, true, microbatch + 1, 0};
    int64_t place = 0;
    if (microbatch == 0) {
      its.push_back({kCollectives, true, how.shared > 0 ? 3 : 4, 0}); // the gather
      pass(Kind::Forward, 0, 0, 1, true, its);
      its = {{kUpdates, true, 1, 0}};
      if (rank == 0)
        its.push_back(sent);
      place = pass(Kind::Forward, 0, 1, 1, false, its);
    } else {
      if (rank == 0)
        its.push_back(sent);
      place = pass(Kind::Forward, microbatch, 0, 0, true, its);
    }
    if (rank == 0)
      transfer(Kind::Send, Payload::Forward, microbatch, place);
  }
  void backward(int32_t microbatch) {
    std::vector<Wait> its;
    if (rank == 0)
      its.push_back({kRecvs, false, transfer(Kind::Recv, Payload::Backward, microbatch, passes + 1), 0});
    if (microbatch == 1) {
      above = pass(Kind::Backward, 1, 1, 1, false, its);
      its.clear();
    }
    if (rank == 1)
      its.push_back({kSends, true, microbatch + 1, 0});
    const int64_t place = pass(Kind::Backward, microbatch, 0, microbatch, true, its);
    if (rank == 1)
      transfer(Kind::Send, Payload::Backward, microbatch, place);
  }
  /// A receive's buffer is free when the step before has used it, on the same place.
  int64_t transfer(Kind kind, Payload of, int32_t microbatch, int64_t pass) {
    Operation o;
    o.kind = kind;
    o.of = of;
    o.stage = rank;
    o.peer = 1 - rank;
    o.cost = kMs;
    o.bytes = kBoundary;
    return add(o, kind == Kind::Send ? kSends : kRecvs, microbatch, {{kCompute, kind == Kind::Recv, pass, 0}});
  }

  int64_t collective(Kind kind, int32_t layer, Payload of, Bytes begin, Bytes end, std::vector<Wait> its) {
    Operation o;
    o.kind = kind;
    o.of = of;
    o.stage = rank;
    o.firstLayer = layer;
    o.layers = 1;
    o.begin = begin;
    o.end = end;
    o.bytes = end - begin;
    o.cost = kMs;
    o.group = rank;
    return add(o, kCollectives, 0, std::move(its));
  }
  int64_t update(int32_t layer, int64_t sum, int64_t norm) {
    Operation o;
    o.kind = Kind::Optimizer;
    o.stage = rank;
    o.firstLayer = layer;
    o.layers = 1;
    o.cost = kMs / 2;
    std::vector<Wait> its = {{kCollectives, false, sum, 0}};
    if (how.norm)
      its.push_back({kNorm, false, norm, 0});
    return add(o, kUpdates, 0, its);
  }
  /// All processes sum the weight that both stages hold, behind all else.
  void exchangeShared() {
    const int64_t share =
        collective(Kind::ReduceScatter, 0, Payload::Gradients, 0, 4 * kMiB, {{kCompute, false, passes, 0}});
    Operation o;
    o.kind = Kind::AllReduce;
    o.of = Payload::Shared;
    o.stage = rank;
    o.layers = 1;
    o.bytes = o.end = how.shared;
    o.cost = kMs;
    o.group = 2;
    const int64_t whole = add(o, kCollectives, 0, {{kCompute, false, passes, 0}});
    if (how.updated)
      update(1, whole, 0);
    const int64_t last = update(0, share, 0);
    collective(Kind::AllGather, 0, Payload::Weights, 0, 2 * kMiB, {{kUpdates, false, last, 0}});
  }
  /// Layer 1 is summed in two pieces, layer 0 scattered, updated and gathered.
  void exchange() {
    if (how.shared > 0)
      return exchangeShared();
    collective(Kind::AllReduce, 1, Payload::Gradients, 4 * kMiB, 5 * kMiB, {{kCompute, false, above, 0}});
    const int64_t whole = collective(Kind::AllReduce, 1, Payload::Gradients, 5 * kMiB, 7 * kMiB, {});
    if (!how.norm)
      update(1, whole, 0);
    const int64_t share =
        collective(Kind::ReduceScatter, 0, Payload::Gradients, 0, 4 * kMiB, {{kCompute, false, passes, 0}});
    if (how.norm) {
      Operation o;
      o.kind = Kind::AllReduce;
      o.of = Payload::Norm;
      o.stage = rank;
      o.bytes = 8;
      o.cost = kMs;
      const int64_t norm = add(o, kNorm, 0, {{kCollectives, false, share, 0}});
      update(1, whole, norm);
      update(0, share, norm);
    } else {
      update(0, share, 0);
    }
    collective(Kind::AllGather, 0, Payload::Weights, 0, 2 * kMiB, {{kUpdates, false, 2, 0}});
  }

  /// Its place on its queue, from 1.
  int64_t add(const Operation &o, uint32_t queue, int32_t microbatch, std::vector<Wait> its) {
    const auto at = std::find(program.operations.begin(), program.operations.end(), o);
    instructions.push_back({uint32_t(at - program.operations.begin()), queue, 0, 0, microbatch, 0});
    if (at == program.operations.end())
      program.operations.push_back(o);
    waits.push_back(std::move(its));
    passes += queue == kCompute;
    return ++issued[queue];
  }

  static constexpr uint32_t kCompute = 0, kUpdates = 1, kSends = 2, kRecvs = 3, kCollectives = 4, kNorm = 5;
  const int32_t rank;
  const Replicated how;
  Program program;
  std::vector<Instruction> instructions;
  std::vector<std::vector<Wait>> waits;
  int64_t issued[6] = {}, passes = 0;
  int64_t above = 0; // the last BW of layer 1
};

} // namespace

Plan makeReplicas(const Replicated &how) {
  Plan plan;
  plan.specHash = 0x0123456789abcdef;
  Variant variant;
  variant.name = "replicas";
  variant.stages = variant.microbatches = 2;
  for (int32_t rank = 0; rank != 2; ++rank) {
    variant.programs.push_back(Writer(rank, how).write());
    variant.layers.push_back({rank, 4 * kMiB, 2 * kMiB, true});
    variant.layers.push_back({rank, how.shared > 0 ? 0 : 3 * kMiB, how.shared > 0 ? 0 : 3 * kMiB, false});
    for (int32_t replica = 0; replica != 2; ++replica)
      plan.processes.push_back({rank, replica, 0});
    plan.groups.push_back({{2 * rank, 2 * rank + 1}});
  }
  if (how.shared > 0) {
    plan.groups.push_back({{0, 1, 2, 3}});
    variant.shared = {{{1, 3}, {0, 1}, how.shared}};
  }
  plan.variants.push_back(std::move(variant));
  return plan;
}

} // namespace pipec::plan::test
