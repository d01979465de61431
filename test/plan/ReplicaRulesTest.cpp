// Rules P44 to P50 and what others ask of replicas, each broken in a plan that is right otherwise.
#include "runtime/plan/Limits.h"
#include "test/plan/MakeReplicas.h"
#include "test/plan/Refused.h"

#include <algorithm>
#include <functional>

namespace pipec::plan {
namespace {

using namespace test;

class ReplicaRules : public ::testing::Test {
protected:
  Plan plan = makeReplicas();
  Program &rank(size_t r) { return plan.variants[0].programs[r]; }
  Variant &variant() { return plan.variants[0]; }

  void eachRefused(const char *label, Code code, const std::vector<std::function<void()>> &changes) {
    expectEachRefused(plan, label, code, changes);
  }
  void damaged(const char *label, const std::vector<std::function<void()>> &changes) {
    eachRefused(label, Code::Input, changes);
  }
  void wrong(const char *label, const std::vector<std::function<void()>> &changes) {
    eachRefused(label, Code::Check, changes);
  }
  /// The n-th operation of a kind of rank 0.
  Operation &of(Kind kind, size_t n = 0) {
    for (Operation &o : rank(0).operations)
      if (o.kind == kind && n-- == 0)
        return o;
    throw std::logic_error("no such operation");
  }
  /// The instruction of an operation of rank 0.
  Instruction &at(const Operation &o) {
    for (Instruction &i : rank(0).instructions)
      if (&rank(0).operations[i.operation] == &o)
        return i;
    throw std::logic_error("no such instruction");
  }
  size_t placeOf(const Operation &o) { return size_t(&at(o) - rank(0).instructions.data()); }
  /// An instruction of rank 0 no longer waits for a queue.
  void forget(const Operation &o, uint32_t queue) { waitOf(rank(0), at(o), queue).base = 0; }
  /// Rank 0's step with some instructions in another order; each takes its waits along.
  void reorder(const std::function<void(std::vector<size_t> &)> &change) { reorder(rank(0), change); }
  static void reorder(Program &p, const std::function<void(std::vector<size_t> &)> &change) {
    std::vector<size_t> order(p.instructions.size());
    for (size_t i = 0; i != order.size(); ++i)
      order[i] = i;
    change(order);
    std::vector<Instruction> instructions;
    std::vector<std::vector<Wait>> waits;
    for (const size_t i : order) {
      const Instruction &own = p.instructions[i];
      instructions.push_back(own);
      waits.emplace_back(p.waits.begin() + own.firstWait, p.waits.begin() + own.firstWait + own.waits);
    }
    setStep(p, instructions, waits, false);
  }
  static constexpr uint32_t kUpdates = 1, kCollectives = 4, kNorm = 5;
};

TEST_F(ReplicaRules, RightPlansPass) {
  for (const bool norm : {false, true}) {
    const Status status = verify(makeReplicas({norm}));
    EXPECT_TRUE(status.ok()) << status.message;
  }
}

TEST_F(ReplicaRules, P6WeightsQueue) {
  rank(0).queues[kUpdates].priority = Priority::Weights;
  expectRefused(plan, "P6", Code::Input);
}

TEST_F(ReplicaRules, P7Layers) {
  damaged("P7",
          {
              [&] { variant().layers.resize(size_t(limits::kLayers) + 1, variant().layers.back()); },
              [&] { variant().copies = 2; }, [&] { variant().slices = 2; },
              [&] { variant().layers.resize(2); }, // none of stage 1
              [&] { variant().layers.front().stage = 1; }, [&] { variant().layers.back().stage = 2; },
              [&] { std::swap(variant().layers[1], variant().layers[2]); }, [&] { variant().layers[1].gradients = -1; },
              [&] { variant().layers[1].gradients = limits::kBytes; }, // with those of layer 0 too many
              [&] { variant().layers[1].weights = limits::kBytes + 1; },
              [&] { variant().layers[0].gradients = 0; }, // it is sharded
          });
}

TEST_F(ReplicaRules, P7VariantsShardTheSameLayers) {
  plan.variants.push_back(variant());
  EXPECT_TRUE(verify(plan).ok());
  damaged("P7", {
                    [&] { plan.variants[1].layers[1].sharded = true; },
                    [&] { plan.variants[1].layers[0].weights += 1; },
                    [&] { plan.variants[1].layers[0].gradients += 1; },
                    [&] { plan.variants[1].layers.pop_back(); },
                });
}

TEST_F(ReplicaRules, P10Queues) {
  damaged("P10", {
                     [&] { rank(0).queues.push_back({QueueKind::Device, Priority::Updates}); },
                     [&] { rank(0).queues[kCollectives].priority = Priority::Updates; },
                 });
  plan = makePlan({});
  rank(0).queues.push_back({QueueKind::Device, Priority::Updates});
  expectRefused(plan, "P10", Code::Input);
}

TEST_F(ReplicaRules, P11Operations) {
  const auto change = [&](Kind kind, size_t n, auto how) { return [=, this] { how(of(kind, n)); }; };
  const auto pieces = [&](auto how) { return change(Kind::AllReduce, 0, how); };
  damaged("P11",
          {
              change(Kind::Forward, 1, [](Operation &o) { o.firstLayer = 2; }),
              change(Kind::Forward, 1, [](Operation &o) { o.layers = 2; }),
              change(Kind::Optimizer, 0, [](Operation &o) { o.layers = INT32_MAX; }),
              change(Kind::Send, 0, [](Operation &o) { o.layers = 1; }),
              pieces([](Operation &o) { o.layers = 0, o.firstLayer = 0; }),
              pieces([](Operation &o) { o.group = -1; }),
              pieces([](Operation &o) { o.of = Payload::Weights; }),
              pieces([](Operation &o) { o.of = Payload::Norm, o.group = -1, o.begin = o.end = 0; }), // of layers
              pieces([](Operation &o) { o.end = o.begin, o.bytes = 0; }),
              pieces([](Operation &o) { o.bytes += 1; }),
              pieces([](Operation &o) { o.begin -= 1, o.bytes += 1; }),     // into layer 0
              pieces([](Operation &o) { o.firstLayer = 0, o.layers = 2; }), // nothing of layer 0
              pieces([](Operation &o) { o.end += 2 << 20, o.bytes = o.end - o.begin, o.end += 1, o.bytes += 1; }),
              change(Kind::ReduceScatter, 0, [](Operation &o) { o.end -= 1, o.bytes -= 1; }),
              change(Kind::ReduceScatter, 0, [](Operation &o) { o.of = Payload::Norm; }),
              change(Kind::ReduceScatter, 0, [](Operation &o) { o.of = Payload::Weights; }),
              change(Kind::AllGather, 0, [](Operation &o) { o.end += 1, o.bytes += 1; }),
              change(Kind::AllGather, 0,
                     [](Operation &o) { o.of = Payload::Gradients, o.end = o.bytes = 4 << 20; }), // it is sharded
              change(Kind::AllGather, 0, [](Operation &o) { o.of = Payload::Norm; }),
              [&] { variant().layers[0].sharded = false; }, // its gather moves weights
              [&] { rank(0).operations.push_back(of(Kind::Forward, 1)); },
              [&] {
                Operation whole = of(Kind::Forward, 2);
                whole.activation += 1; // which does not tell whole passes apart
                rank(0).operations.push_back(whole);
              },
          });
  Operation other = of(Kind::Forward, 1);
  other.activation += 1; // but parts
  rank(0).operations.push_back(other);
  EXPECT_TRUE(verify(plan).ok());
  of(Kind::Forward, 1).end = 1; // in a file P5 refuses it
  EXPECT_EQ(verify(plan).message.substr(0, 5), "P11: ");
}

TEST_F(ReplicaRules, P13Queues) {
  const auto move = [&](Kind kind, size_t n, uint32_t queue) { return [=, this] { at(of(kind, n)).queue = queue; }; };
  damaged("P13", {
                     move(Kind::Optimizer, 0, kCollectives),
                     move(Kind::AllReduce, 0, kUpdates),
                     move(Kind::Forward, 0, kUpdates),
                     [&] { // all of a rank come one after the other, so in one order on all replicas
                       rank(0).queues.push_back({QueueKind::Communicator, Priority::Compute});
                       at(of(Kind::AllGather)).queue = uint32_t(rank(0).queues.size()) - 1;
                     },
                 });
}

TEST_F(ReplicaRules, P21WorkCounts) {
  wrong("P21", {
                   [&] { at(of(Kind::Forward, 2)).operation = at(of(Kind::Forward, 1)).operation; },
                   [&] { at(of(Kind::Forward, 1)).operation = at(of(Kind::Forward, 2)).operation; },
               });
}

TEST_F(ReplicaRules, P25Once) {
  wrong("P25", {
                   [&] { // a part, then the whole
                     at(of(Kind::Forward, 2)).microbatch = 0;
                     at(of(Kind::Forward, 1)).microbatch = 1;
                     const size_t part = placeOf(of(Kind::Forward, 1)), whole = placeOf(of(Kind::Forward, 2));
                     reorder([&](std::vector<size_t> &order) { std::swap(order[part], order[whole]); });
                   },
                   [&] { at(of(Kind::Backward, 1)).microbatch = 0; },
               });
}

// A send waits for the part that runs last, a receive for that which runs first.
TEST_F(ReplicaRules, P29SendsAndP32ReceivesOfParts) {
  wrong("P29", {[&] { waitOf(rank(0), firstOf(rank(0), Kind::Send), 0).base = 1; }});
  wrong("P27", {[&] { waitOf(rank(0), at(of(Kind::Backward, 1)), 3).base = 1; }});
  wrong("P32", {[&] {
          for (Instruction &i : rank(0).instructions)
            if (rank(0).operations[i.operation].kind == Kind::Recv && i.microbatch == 1)
              waitOf(rank(0), i, 0).base -= 1;
        }});
}

TEST_F(ReplicaRules, P33Memory) {
  wrong("P33", {
                   [&] { std::swap(of(Kind::Forward, 0).activation, of(Kind::Forward, 1).activation); },
                   [&] { of(Kind::Forward, 1).activation = of(Kind::Forward, 0).activation; },
                   [&] { of(Kind::Forward, 0).context = 0; },
                   [&] { of(Kind::Forward, 0).context -= 1; },
                   [&] { std::swap(of(Kind::Backward, 1).activation, of(Kind::Backward, 2).activation); },
                   [&] { of(Kind::Backward, 1).context = of(Kind::Backward, 2).context; },
                   [&] { of(Kind::Backward, 2).activation = 0; },
               });
}

TEST_F(ReplicaRules, P44Groups) {
  damaged("P44", {
                     [&] { plan.groups[0].members = {0, 2}; },
                     [&] { plan.groups[0].members = {2, 3}; },
                     [&] { // of two ranks
                       plan.groups[0].members = {0, 1, 2, 3};
                       for (Operation &o : rank(1).operations)
                         o.group = std::min(o.group, 0);
                     },
                 });
}

TEST_F(ReplicaRules, P45Processes) {
  damaged("P45", {
                     [&] { plan.processes.pop_back(); },
                     [&] { std::swap(plan.processes[0], plan.processes[1]); },
                     [&] { std::swap(plan.processes[1], plan.processes[2]); },
                     [&] { plan.processes[3].shard = 1; },
                     [&] { plan.processes.resize(2); },
                     [&] { variant().layers.clear(); },
                     [&] { // without replicas
                       plan.processes = {{0, 0, 0}, {1, 0, 0}};
                     },
                     [&] { plan.processes.resize(size_t(limits::kProcesses) + 2); },
                     [&] { plan.processes.clear(); },
                 });
}

TEST_F(ReplicaRules, P47WithoutUpdatesNothingIsExchanged) {
  const auto drop = [&](auto wanted) {
    for (Program &program : variant().programs) {
      for (Wait &wait : program.waits)
        if (wait.queue == kUpdates || wait.queue == kCollectives)
          wait.base = 0;
      reorder(program, [&](std::vector<size_t> &order) {
        std::erase_if(order,
                      [&](size_t i) { return wanted(program.operations[program.instructions[i].operation].kind); });
      });
    }
  };
  drop([](Kind kind) { return kind == Kind::Optimizer; });
  expectRefused(plan, "P47", Code::Check);
  drop(isCollective);
  EXPECT_TRUE(verify(plan).ok()) << verify(plan).message;
}

// What has no gradients need not be summed, gathered or updated, and what others do with it has no effect.
TEST_F(ReplicaRules, P47LayersWithoutGradients) {
  variant().layers.insert(variant().layers.begin() + 1, {0, 0, 0, false});
  for (Operation &o : rank(0).operations)
    if (o.firstLayer == 1)
      ++o.firstLayer;
  of(Kind::Forward, 0).layers = 2;
  of(Kind::Backward, 2).layers = 2;
  const Status status = verify(plan);
  EXPECT_TRUE(status.ok()) << status.message;
  for (const Kind kind : {Kind::ReduceScatter, Kind::AllGather})
    for (int32_t layers : {2, 1}) {
      of(kind).layers = layers;
      EXPECT_TRUE(verify(plan).ok());
    }
  of(Kind::Optimizer, 0).firstLayer = 1;
  of(Kind::Optimizer, 0).layers = 2;
  EXPECT_TRUE(verify(plan).ok());
}

// F goes up through the layers, BW down.
TEST_F(ReplicaRules, P46Parts) {
  const auto exchange = [&](Kind kind, size_t one, size_t other) {
    return [=, this] { std::swap(at(of(kind, one)).operation, at(of(kind, other)).operation); };
  };
  wrong("P46", {exchange(Kind::Forward, 0, 1), exchange(Kind::Backward, 1, 2),
                [&] { at(of(Kind::Forward, 1)).operation = at(of(Kind::Forward, 0)).operation; }});
}

TEST_F(ReplicaRules, P47Exchange) {
  const auto instead = [&](Kind kind, size_t one, Kind other, size_t n) {
    return [=, this] { at(of(kind, one)).operation = at(of(other, n)).operation; };
  };
  wrong("P47",
        {
            instead(Kind::AllReduce, 0, Kind::AllReduce, 1), // a piece twice
            instead(Kind::Optimizer, 0, Kind::Optimizer, 1), // a layer updated twice, and another never
            instead(Kind::AllGather, 0, Kind::AllReduce, 0),
            instead(Kind::AllReduce, 0, Kind::AllGather, 0), // a piece never, and a gather twice
            [&] { of(Kind::AllReduce, 1).end -= 1, of(Kind::AllReduce, 1).bytes -= 1; },
            [&] { of(Kind::AllReduce, 0).end += 1, of(Kind::AllReduce, 0).bytes += 1; },
            [&] { of(Kind::ReduceScatter).kind = Kind::AllReduce; }, // a sharded layer, all-reduced and gathered
            [&] {                                                    // a layer that is scattered and never gathered
              Operation &o = of(Kind::AllReduce, 1);
              o.begin = 4 << 20;
              o.bytes = o.end - o.begin;
              o.kind = Kind::ReduceScatter;
              at(of(Kind::AllReduce, 0)).operation = at(of(Kind::ReduceScatter, 1)).operation;
              at(of(Kind::ReduceScatter, 0)).operation = at(of(Kind::ReduceScatter, 1)).operation;
            },
            [&] { of(Kind::Optimizer, 0).layers = of(Kind::Optimizer, 0).firstLayer = 0; }, // one of both, and one
            [&] {                                                                           // an update of both
              of(Kind::Optimizer, 0).firstLayer = 0;
              of(Kind::Optimizer, 0).layers = 2;
              waitOf(rank(0), at(of(Kind::AllGather)), kUpdates).base = 1;
              const size_t update = placeOf(of(Kind::Optimizer, 1));
              reorder([&](std::vector<size_t> &order) { order.erase(order.begin() + long(update)); });
            },
        });
}

TEST_F(ReplicaRules, P48SumsComeAfterTheirGradients) {
  wrong("P48", {
                   [&] { forget(of(Kind::AllReduce, 0), 0); },
                   [&] { waitOf(rank(0), at(of(Kind::AllReduce, 0)), 0).base -= 1; },
                   [&] { waitOf(rank(0), at(of(Kind::ReduceScatter)), 0).base -= 1; },
                   [&] { // that of the step before is another
                     waitOf(rank(0), at(of(Kind::ReduceScatter)), 0).previousStep = true;
                   },
               });
}

TEST_F(ReplicaRules, P49SumsUpdatesGathers) {
  wrong("P49", {
                   [&] { waitOf(rank(0), at(of(Kind::Optimizer, 0)), kCollectives).base = 1; }, // of two pieces
                   [&] { waitOf(rank(0), at(of(Kind::Optimizer, 1)), kCollectives).base = 2; },
                   [&] { forget(of(Kind::AllGather), kUpdates); },
                   [&] { waitOf(rank(0), at(of(Kind::AllGather)), kUpdates).base = 1; },
                   [&] { waitOf(rank(0), at(of(Kind::AllGather)), kUpdates).previousStep = true; },
               });
  plan = makeReplicas({.norm = true});
  wrong("P49", {
                   [&] { forget(of(Kind::Optimizer, 0), kNorm); },
                   [&] { waitOf(rank(0), at(of(Kind::Optimizer, 0)), kNorm).previousStep = true; },
               });
  wrong(
      "P39",
      {
          [&] { waitOf(rank(0), firstOf(rank(0), Kind::AllReduce, Payload::Norm), kCollectives).base = 2; },
          [&] { forget(rank(0).operations[firstOf(rank(0), Kind::AllReduce, Payload::Norm).operation], kCollectives); },
      });
}

// A gather before the last backward that feeds it: on one queue with the sum.
TEST_F(ReplicaRules, P49AGatherBeforeItsSum) {
  const size_t gather = placeOf(of(Kind::AllGather)), sum = placeOf(of(Kind::ReduceScatter));
  forget(of(Kind::AllGather), kUpdates);
  reorder([&](std::vector<size_t> &order) { std::swap(order[gather], order[sum]); });
  expectRefused(plan, "P49", Code::Check);
}

TEST_F(ReplicaRules, P50ForwardsOnWeightsOfTheStepBefore) {
  wrong("P50", {
                   [&] { forget(of(Kind::Forward, 0), kCollectives); },
                   [&] { waitOf(rank(0), at(of(Kind::Forward, 0)), kCollectives).base = 3; }, // before the gather
                   [&] { forget(of(Kind::Forward, 1), kUpdates); },
               });
}

// DeAR's code lets the next forward issue updates, so that the last step's are lost. In a plan an update belongs to the
// step whose sums it takes: one that the head of a step issues waits for sums that are not issued yet.
TEST_F(ReplicaRules, UpdatesOfTheNextForwardAreRefused) {
  const auto atHead = [&](bool previousStep) {
    const size_t update = placeOf(of(Kind::Optimizer, 0));
    waitOf(rank(0), at(of(Kind::Optimizer, 0)), kCollectives).previousStep = previousStep;
    reorder([&](std::vector<size_t> &order) {
      std::rotate(order.begin(), order.begin() + long(update), order.begin() + long(update) + 1);
    });
  };
  eachRefused("P18", Code::Input, {[&] { atHead(false); }});
  wrong("P49", {[&] { atHead(true); }});
}

// Replicas run one program: a plan has one for each rank, and cannot say that two of them differ.
TEST_F(ReplicaRules, ReplicasShareTheirProgram) {
  EXPECT_EQ(variant().programs.size(), 2u);
  EXPECT_EQ(plan.processes.size(), 4u);
  variant().programs.insert(variant().programs.begin() + 1, rank(0)); // of replica 1, its collectives in another order
  expectRefused(plan, "P45", Code::Input);
}

TEST(ReplicaRulesAlone, P45PortsAreSharedWithReplicas) {
  Plan plan = makePlan({});
  plan.variants[0].sharedPort = true;
  expectRefused(plan, "P45", Code::Input);
}

} // namespace
} // namespace pipec::plan
