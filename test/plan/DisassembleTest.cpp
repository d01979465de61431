// A plan as text.
#include "runtime/plan/Disassemble.h"
#include "test/plan/Refused.h"

namespace pipec::plan {
namespace {

using namespace test;

TEST(Disassemble, Describe) {
  Plan plan = makePlan({});
  Program &p = plan.variants[0].programs[1];
  EXPECT_EQ(describe(1, operationOf(p, Kind::Backward), 7), "rank 1: BW stage 1 microbatch 7");
  EXPECT_EQ(describe(1, operationOf(p, Kind::Send, Payload::Forward), 7),
            "rank 1: send F stage 1 microbatch 7 to rank 2");
  EXPECT_EQ(describe(1, operationOf(p, Kind::Recv, Payload::Backward), 7),
            "rank 1: recv B stage 1 microbatch 7 from rank 2");
  EXPECT_EQ(describe(1, operationOf(p, Kind::Optimizer), 0), "rank 1: optimizer stage 1");
}

TEST(Disassemble, QueueNames) {
  Make make;
  make.deferred = true;
  Program p = makePlan(make).variants[0].programs[1];
  EXPECT_EQ(queueNames(p),
            (std::vector<std::string>{"compute", "weights", "recv from 0", "send to 2", "recv from 2", "send to 0"}));
  // One queue a pair, then one in all.
  for (Instruction &i : p.instructions)
    if (isTransfer(p.operations[i.operation].kind))
      i.queue = p.operations[i.operation].peer == 0 ? 2 : 3;
  p.queues.resize(4);
  EXPECT_EQ(queueName(p, 2), "link with 0");
  EXPECT_EQ(queueName(p, 3), "link with 2");
  for (Instruction &i : p.instructions)
    if (i.queue == 3)
      i.queue = 2;
  p.queues.resize(3);
  EXPECT_EQ(queueName(p, 2), "transfers");
}

TEST(Disassemble, Text) {
  Make make;
  make.ranks = 2;
  make.microbatches = 6;
  Plan plan = makePlan(make);
  plan.variants[0].certificate = {200'000'000'000, 190'000'000'000, 180'000'000'000,
                                  170'000'000'000, Bound::Work,     Bound::Area};
  const std::string text = disassemble(plan, {.rank = 1, .variant = 0});
  EXPECT_EQ(text, R"(plan: 2 ranks, 1 variants, spec 0123456789abcdef
variant 0 1f1b: 2 stages, 6 microbatches, no memory limit
  makespan 200 ms, at least 180 ms (work)
  span 190 ms, at least 170 ms (area)
  rank 1: stages 1, static 6 GiB, workspace 1 MiB, 25 instructions
    queue 0: compute
    queue 1: recv from 0
    queue 2: send to 0
    ring recv from 0: 2 x 16 MiB
    ring send to 0: 2 x 16 MiB
    [recv from 0] recv F stage 1 microbatch 0 from rank 0  wait [compute] of the step before >= 9  (1 ms + 20 us, 16 MiB)
    [compute] F stage 1 microbatch 0  wait [recv from 0] >= 1  (10 ms, activation +1 GiB, context +256 MiB)
    [compute] BW stage 1 microbatch 0  wait [send to 0] of the step before >= 5  (19 ms, activation -1 GiB, context -256 MiB)
    [send to 0] send B stage 1 microbatch 0 to rank 0  wait [compute] >= 2  (1 ms + 20 us, 16 MiB)
    [recv from 0] recv F stage 1 microbatch 1 from rank 0  wait [compute] of the step before >= 11  (1 ms + 20 us, 16 MiB)
    [compute] F stage 1 microbatch 1  wait [recv from 0] >= 2  (10 ms, activation +1 GiB, context +256 MiB)
    [compute] BW stage 1 microbatch 1  wait [send to 0] of the step before >= 6  (19 ms, activation -1 GiB, context -256 MiB)
    repeat 4 {
      [send to 0] send B stage 1 microbatch 1+t to rank 0  wait [compute] >= 4+2t  (1 ms + 20 us, 16 MiB)
      [recv from 0] recv F stage 1 microbatch 2+t from rank 0  wait [compute] >= 1+2t  (1 ms + 20 us, 16 MiB)
      [compute] F stage 1 microbatch 2+t  wait [recv from 0] >= 3+t  (10 ms, activation +1 GiB, context +256 MiB)
      [compute] BW stage 1 microbatch 2+t  wait [send to 0] >= 1+t  (19 ms, activation -1 GiB, context -256 MiB)
    }
    [send to 0] send B stage 1 microbatch 5 to rank 0  wait [compute] >= 12  (1 ms + 20 us, 16 MiB)
    [compute] optimizer stage 1  (5 ms)
)");
  EXPECT_EQ(disassemble(plan, {.variant = 3}), "plan: 2 ranks, 1 variants, spec 0123456789abcdef\n");
}

} // namespace
} // namespace pipec::plan
