// Rules P21 to P35, each broken in a plan that is right otherwise.
#include "runtime/plan/Limits.h"
#include "test/plan/Refused.h"

#include <algorithm>

namespace pipec::plan {
namespace {

using namespace test;

/// An unrolled plan, since one instruction is to be wrong.
Make straight() {
  Make make;
  make.rolled = false;
  return make;
}

/// One in which each backward has its R.
Make again() {
  Make make = straight();
  make.recompute = true;
  return make;
}

class WholeRules : public ::testing::Test {
protected:
  Plan plan = makePlan(straight());
  Program &rank(size_t r) { return plan.variants[0].programs[r]; }
  void make(const Make &how) { plan = makePlan(how); }
  void refused(const char *label) { expectRefused(plan, label, Code::Check); }

  /// The instruction of a microbatch.
  Instruction &at(size_t r, Kind kind, int32_t microbatch, Payload of = Payload::None) {
    for (Instruction &i : rank(r).instructions)
      if (const Operation &o = rank(r).operations[i.operation];
          o.kind == kind && o.of == of && i.microbatch == microbatch)
        return i;
    throw std::logic_error("no such instruction");
  }
  /// Lets an instruction no longer wait for a queue.
  void forget(size_t r, const Instruction &instruction, uint32_t queue) {
    waitOf(rank(r), instruction, queue).base = 0;
  }
  uint32_t queueOf(size_t r, Kind kind, Payload of) { return firstOf(rank(r), kind, of).queue; }
  /// Removes all that is executed of a kind; what waited for it waits for nothing.
  void removeSegmentsWith(size_t r, Kind kind) {
    Program &p = rank(r);
    std::vector<Instruction> kept;
    std::vector<std::vector<Wait>> waits;
    for (const Instruction &i : p.instructions)
      if (p.operations[i.operation].kind != kind) {
        kept.push_back(i);
        waits.emplace_back(p.waits.begin() + i.firstWait, p.waits.begin() + i.firstWait + i.waits);
        for (Wait &wait : waits.back())
          wait.base = 0;
      }
    setStep(p, kept, waits, false);
  }
};

TEST_F(WholeRules, P21WorkCounts) {
  removeSegmentsWith(0, Kind::Optimizer); // on some stages only
  refused("P21");
  plan = makePlan(straight());
  removeSegmentsWith(1, Kind::Backward);
  refused("P21");
  Make split = straight();
  split.split = true;
  make(split);
  removeSegmentsWith(1, Kind::BackwardWeight);
  refused("P21");
  make(again());
  removeSegmentsWith(1, Kind::Recompute); // by no stage, which P21 allows: P33 finds that F holds too little
  refused("P33");
  make(again());
  at(1, Kind::Recompute, 2).operation = at(1, Kind::Forward, 2).operation;
  refused("P21");
  plan = makePlan({}); // a flipped trip count
  Program &p = rank(3);
  for (size_t s = 0; s < p.step.size(); ++s)
    if (p.step[s].trips > 1) {
      p.step[s].trips += 1;
      for (Wait &wait : p.waits)
        wait = {};
      for (Instruction &i : p.instructions)
        i.microbatch = i.microbatchStride = 0;
      break;
    }
  refused("P21");
}

TEST_F(WholeRules, P22Neighbours) {
  Operation &o = operationOf(rank(0), Kind::Send, Payload::Forward);
  o.peer = 3; // stage 1 is on rank 1
  rank(0).rings[0].peer = 3;
  refused("P22");
  plan = makePlan(straight());
  operationOf(rank(0), Kind::Send, Payload::Forward).of = Payload::Backward; // there is no stage -1
  refused("P22");
}

TEST_F(WholeRules, P23TransferCounts) {
  removeSegmentsWith(1, Kind::Recv);
  rank(1).rings.erase(std::remove_if(rank(1).rings.begin(), rank(1).rings.end(),
                                     [](const Ring &ring) { return ring.direction == Direction::Recv; }),
                      rank(1).rings.end());
  refused("P23");
  plan = makePlan(straight());
  removeSegmentsWith(2, Kind::Send);
  rank(2).rings.erase(std::remove_if(rank(2).rings.begin(), rank(2).rings.end(),
                                     [](const Ring &ring) { return ring.direction == Direction::Send; }),
                      rank(2).rings.end());
  refused("P23");
}

TEST_F(WholeRules, P24TransferOrder) {
  const auto changeRecv = [&](auto change) {
    plan = makePlan(straight());
    change(operationOf(rank(1), Kind::Recv, Payload::Forward));
    refused("P24");
  };
  changeRecv([](Operation &o) { o.bytes -= 1; });
  changeRecv([](Operation &o) { o.cost += 1; });
  changeRecv([](Operation &o) { o.latency += 1; });
  plan = makePlan(straight());
  std::swap(at(1, Kind::Recv, 2, Payload::Forward).microbatch, at(1, Kind::Recv, 3, Payload::Forward).microbatch);
  refused("P24");
}

TEST_F(WholeRules, P40FirstUse) {
  // Rank 1's first receive from rank 2 is issued before its first from rank 0. Each stands at the head of a queue of
  // its own, so the step runs; but rank 2 connects to rank 1 only after rank 1 to rank 2.
  Program &program = rank(1);
  const auto first = std::find_if(program.instructions.begin(), program.instructions.end(), [&](const Instruction &i) {
    const Operation &o = program.operations[i.operation];
    return o.kind == Kind::Recv && o.of == Payload::Backward;
  });
  std::vector<std::vector<Wait>> waits;
  std::vector<Instruction> instructions(program.instructions.begin(), program.instructions.end());
  for (const Instruction &i : instructions)
    waits.emplace_back(program.waits.begin() + i.firstWait, program.waits.begin() + i.firstWait + i.waits);
  const auto at = first - program.instructions.begin();
  std::rotate(instructions.begin(), instructions.begin() + at, instructions.begin() + at + 1);
  std::rotate(waits.begin(), waits.begin() + at, waits.begin() + at + 1);
  setStep(program, instructions, waits, /*rolled=*/false);
  refused("P40");
  EXPECT_EQ(
      verify(plan).message,
      "P40: connections that are made when they are first used would wait for each other in a cycle of 2 ranks: rank "
      "1 first connects 2 to 1, rank 2 first connects 1 to 2; issue first transfers in one order on all ranks");
}

TEST_F(WholeRules, P25Once) {
  at(3, Kind::Forward, 5).microbatch = 4;
  refused("P25");
  plan = makePlan(straight());
  at(3, Kind::Backward, 5).microbatch = 4;
  refused("P25");
  plan = makePlan(straight());
  at(0, Kind::Send, 5, Payload::Forward).microbatch = 4;
  at(1, Kind::Recv, 5, Payload::Forward).microbatch = 4;
  refused("P25");
}

TEST_F(WholeRules, P26ForwardInput) {
  const uint32_t recv = queueOf(1, Kind::Recv, Payload::Forward);
  forget(1, at(1, Kind::Forward, 4), recv);
  refused("P26");
  Make local = straight(); // on one rank: stage 1 before stage 0
  local.ranks = 1;
  local.stagesPerRank = 2;
  make(local);
  std::swap(rank(0).instructions[0], rank(0).instructions[1]);
  refused("P26");
}

TEST_F(WholeRules, EarlierWaitsOfTheQueueCount) {
  Make eager = straight();
  eager.slots = 8;
  make(eager);
  const uint32_t recv = queueOf(3, Kind::Recv, Payload::Forward);
  Program &p = rank(3);
  // All receives first: then the first F waits for all, and the others for none.
  std::vector<Instruction> order;
  std::vector<std::vector<Wait>> waits;
  for (const bool receives : {true, false})
    for (const Instruction &i : p.instructions)
      if ((p.operations[i.operation].kind == Kind::Recv) == receives) {
        order.push_back(i);
        waits.emplace_back(p.waits.begin() + i.firstWait, p.waits.begin() + i.firstWait + i.waits);
        for (Wait &wait : waits.back())
          if (wait.queue == recv)
            wait.base = 0;
      }
  waits[8].push_back({recv, false, 8, 0});
  setStep(p, order, waits, false);
  EXPECT_TRUE(verify(plan).ok()) << verify(plan).message;
  waits[8].back().base = 7;
  setStep(p, order, waits, false);
  refused("P26");
}

TEST_F(WholeRules, P27BackwardInput) {
  forget(1, at(1, Kind::Backward, 4), queueOf(1, Kind::Recv, Payload::Backward));
  refused("P27");
  plan = makePlan(straight()); // a backward before its forward
  std::swap(at(3, Kind::Backward, 0).microbatch, at(3, Kind::Backward, 7).microbatch);
  std::swap(at(3, Kind::Send, 0, Payload::Backward).microbatch, at(3, Kind::Send, 7, Payload::Backward).microbatch);
  std::swap(at(2, Kind::Recv, 0, Payload::Backward).microbatch, at(2, Kind::Recv, 7, Payload::Backward).microbatch);
  refused("P27");
  Make local = straight();
  local.ranks = 1;
  local.stagesPerRank = 2;
  make(local);
  std::swap(rank(0).instructions[2], rank(0).instructions[3]);
  refused("P27");
  make(again()); // a backward whose activation is not there
  std::swap(at(0, Kind::Recompute, 0).microbatch, at(0, Kind::Recompute, 1).microbatch);
  refused("P27");
}

TEST_F(WholeRules, P28WeightInput) {
  Make split = straight();
  split.split = true;
  make(split);
  std::swap(at(3, Kind::BackwardWeight, 0).microbatch, at(3, Kind::BackwardWeight, 7).microbatch);
  refused("P28");
  Make deferred = straight();
  deferred.deferred = true;
  make(deferred);
  forget(3, at(3, Kind::BackwardWeight, 3), 0);
  refused("P28");
}

TEST_F(WholeRules, P29SendInput) {
  forget(0, at(0, Kind::Send, 4, Payload::Forward), 0);
  refused("P29");
  plan = makePlan(straight()); // sent before it is made
  std::swap(at(0, Kind::Send, 0, Payload::Forward).microbatch, at(0, Kind::Send, 7, Payload::Forward).microbatch);
  std::swap(at(1, Kind::Recv, 0, Payload::Forward).microbatch, at(1, Kind::Recv, 7, Payload::Forward).microbatch);
  refused("P29");
}

TEST_F(WholeRules, P30OptimizerInput) {
  Make local = straight();
  local.ranks = 1;
  make(local);
  std::swap(*(rank(0).instructions.end() - 1), *(rank(0).instructions.end() - 2));
  refused("P30");
  local.split = true;
  make(local);
  std::swap(*(rank(0).instructions.end() - 1), *(rank(0).instructions.end() - 2));
  refused("P30");
  local.deferred = true;
  make(local);
  forget(0, firstOf(rank(0), Kind::Optimizer), 1);
  refused("P30");
}

TEST_F(WholeRules, P31SendSlots) {
  const uint32_t send = queueOf(0, Kind::Send, Payload::Forward);
  forget(0, at(0, Kind::Forward, 4), send);
  refused("P31");
  plan = makePlan(straight()); // across steps
  forget(0, at(0, Kind::Forward, 1), send);
  refused("P31");
}

TEST_F(WholeRules, P32RecvSlots) {
  forget(1, at(1, Kind::Recv, 4, Payload::Forward), 0);
  refused("P32");
  plan = makePlan(straight());
  forget(1, at(1, Kind::Recv, 0, Payload::Forward), 0);
  refused("P32");
}

TEST_F(WholeRules, SlotsAcrossStepsWhereTheRingDoesNotDivideTheTransfers) {
  for (const uint32_t slots : {1u, 3u, 5u, 8u}) {
    Make uneven = straight();
    uneven.slots = slots;
    make(uneven);
    EXPECT_TRUE(verify(plan).ok()) << verify(plan).message;
    // Slot 0's last transfer of a step of 8.
    Wait &wait = waitOf(rank(1), at(1, Kind::Recv, 0, Payload::Forward), 0);
    ASSERT_TRUE(wait.previousStep);
    wait.base -= 1;
    refused("P32");
  }
}

TEST_F(WholeRules, P33Released) {
  operationOf(rank(2), Kind::Backward).activation -= 1;
  refused("P33");
  plan = makePlan(straight());
  operationOf(rank(2), Kind::Backward).context += 1;
  refused("P33");
  Make forwardOnly = straight();
  forwardOnly.backward = false;
  make(forwardOnly);
  operationOf(rank(2), Kind::Forward).activation = 1;
  refused("P33");
  Make split = straight();
  split.split = true;
  make(split); // what B adds to a context, W gives back
  operationOf(rank(2), Kind::BackwardInput).context = 5;
  refused("P33");
  operationOf(rank(2), Kind::BackwardWeight).context += 5;
  EXPECT_EQ(verify(plan.variants[0]).message.find("P33"), std::string::npos);
  make(again());
  operationOf(rank(2), Kind::Recompute).activation += 1;
  refused("P33");
  make(again());
  operationOf(rank(2), Kind::Recompute).bytes -= 1;
  refused("P33");
  make(again()); // F keeps nothing but its input
  operationOf(rank(2), Kind::Forward).context = 1;
  refused("P33");
  plan = makePlan(straight()); // which nothing releases
  operationOf(rank(2), Kind::Forward).bytes = 1;
  refused("P33");
}

TEST_F(WholeRules, P34Deferred) {
  Make deferred = straight();
  deferred.deferred = true;
  deferred.optimizer = false;
  make(deferred);
  refused("P34");
}

TEST_F(WholeRules, P38Collectives) {
  Make norm = straight();
  norm.norm = true;
  make(norm);
  EXPECT_TRUE(verify(plan).ok()) << verify(plan).message;
  operationOf(rank(2), Kind::AllReduce).bytes += 8;
  refused("P38");
  make(norm);
  operationOf(rank(2), Kind::AllReduce).cost += 1;
  refused("P38");
  make(norm); // twice on one rank
  Program &twice = rank(1);
  const Instruction reduce = firstOf(twice, Kind::AllReduce);
  twice.instructions.push_back(reduce);
  twice.instructions.back().firstWait = 0;
  twice.instructions.back().waits = 0;
  ++twice.step.back().count;
  refused("P38");
  make(norm); // on no other rank
  Make without = straight();
  plan.variants.front().programs[3] = makePlan(without).variants.front().programs[3];
  refused("P38");
}

TEST_F(WholeRules, P39AllReduceOrder) {
  Make norm = straight();
  norm.norm = true;
  make(norm);
  forget(0, firstOf(rank(0), Kind::AllReduce), 0);
  refused("P39");
  make(norm);
  forget(0, firstOf(rank(0), Kind::Optimizer), firstOf(rank(0), Kind::AllReduce).queue);
  refused("P39");
  norm.ranks = 1;
  make(norm); // before the last backward: the two change places
  std::swap(*(rank(0).instructions.end() - 2), *(rank(0).instructions.end() - 3));
  for (Wait &wait : rank(0).waits)
    if (wait.queue == 0)
      --wait.base;
  std::swap((rank(0).instructions.end() - 2)->firstWait, (rank(0).instructions.end() - 3)->firstWait);
  refused("P39");
  norm.deferred = true;
  make(norm);
  EXPECT_TRUE(verify(plan).ok()) << verify(plan).message;
  forget(0, firstOf(rank(0), Kind::AllReduce), 1);
  refused("P39");
}

TEST_F(WholeRules, P41CopySums) {
  plan = makeCopies();
  EXPECT_TRUE(verify(plan).ok()) << verify(plan).message;
  operationOf(rank(1), Kind::AllReduce).bytes += 8;
  refused("P41");
  plan = makeCopies();
  operationOf(rank(1), Kind::AllReduce).cost += 1;
  refused("P41");
  plan = makeCopies(); // a norm over all ranks, which is not the same
  for (int32_t r : {0, 1}) {
    operationOf(rank(r), Kind::AllReduce).of = Payload::Norm;
    operationOf(rank(r), Kind::AllReduce).group = -1;
  }
  refused("P41");
}

TEST_F(WholeRules, P42SliceOrder) {
  plan = makeCopies();
  std::swap(rank(0).instructions[0].microbatch, rank(0).instructions[1].microbatch); // F
  refused("P42");
  plan = makeCopies();
  std::swap(rank(1).instructions[2].microbatch, rank(1).instructions[3].microbatch); // BW
  refused("P42");
}

TEST_F(WholeRules, P35Memory) {
  Make fits = straight();
  // Rank 0 of four holds four microbatches; two rings of two slots.
  fits.memoryLimit = 4 * (fits.activation + fits.context) + 4 * fits.boundary + fits.staticBytes + fits.workspace;
  make(fits);
  EXPECT_TRUE(verify(plan).ok()) << verify(plan).message;
  fits.memoryLimit -= 1;
  make(fits);
  refused("P35");
  EXPECT_NE(verify(plan).message.find("rank 0: F stage 0 microbatch 3"), std::string::npos) << verify(plan).message;
}

TEST_F(WholeRules, P35MemoryOfARankWithItsOwnLimit) {
  Make fits = straight();
  const Bytes needed = 4 * (fits.activation + fits.context) + 4 * fits.boundary + fits.staticBytes + fits.workspace;
  fits.memoryLimit = limits::kBytes;
  make(fits);
  rank(0).memoryLimit = needed;
  EXPECT_TRUE(verify(plan).ok()) << verify(plan).message;
  rank(0).memoryLimit = needed - 1;
  refused("P35");
}

TEST_F(WholeRules, P35DeferredWeightsAreLiveUntilTheComputeQueueKnowsBetter) {
  Make deferred = straight();
  deferred.deferred = true;
  deferred.ranks = 1;
  deferred.memoryLimit = deferred.activation + 8 * deferred.context + deferred.staticBytes + deferred.workspace;
  make(deferred);
  EXPECT_TRUE(verify(plan).ok()) << verify(plan).message;
  deferred.memoryLimit -= 1;
  make(deferred);
  refused("P35");
  // F 7 waits for the first W: one context less.
  Program &p = rank(0);
  std::vector<Instruction> order(p.instructions);
  std::vector<std::vector<Wait>> waits;
  for (const Instruction &i : p.instructions) {
    waits.emplace_back(p.waits.begin() + i.firstWait, p.waits.begin() + i.firstWait + i.waits);
    if (p.operations[i.operation].kind == Kind::Forward && i.microbatch == 7)
      waits.back().push_back({1, false, 1, 0});
  }
  setStep(p, order, waits, false);
  EXPECT_TRUE(verify(plan).ok()) << verify(plan).message;
}

} // namespace
} // namespace pipec::plan
