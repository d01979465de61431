// A plan as text.
#include "runtime/plan/Disassemble.h"
#include "test/plan/MakeBurst.h"
#include "test/plan/MakeReplicas.h"
#include "test/plan/MakeShards.h"
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
  plan.variants[0].certificate = {
      200'000'000'000, 190'000'000'000, LeastTime::proven(180'000'000'000), LeastTime::proven(170'000'000'000),
      Bound::Work,     Bound::Area};
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

TEST(Disassemble, Replicas) {
  Plan plan = makeReplicas({.norm = true});
  plan.variants[0].layers[0].weights = plan.variants[0].layers[0].gradients; // as a rule
  const std::string text = disassemble(plan, {.rank = 1, .variant = 0});
  EXPECT_EQ(text, R"(plan: 2 ranks, 2 replicas of each, 1 variants, spec 0123456789abcdef
group 0: processes 0 1
group 1: processes 2 3
variant 0 replicas: 2 stages, 2 microbatches, no memory limit
  makespan 0 ps, at least 0 ps (none)
  span 0 ps, at least 0 ps (none)
  layer 0 of stage 0: 4 MiB of gradients, sharded
  layer 1 of stage 0: 3 MiB of gradients
  layer 0 of stage 1: 4 MiB of gradients, sharded, 2 MiB of weights
  layer 1 of stage 1: 3 MiB of gradients
  rank 1: stages 1, static 100 MiB, workspace 1 MiB, 17 instructions
    queue 0: compute
    queue 1: updates
    queue 2: send to 0
    queue 3: recv from 0
    queue 4: collectives of replicas
    queue 5: collectives
    ring send to 0: 2 x 1 MiB
    ring recv from 0: 2 x 1 MiB
    [recv from 0] recv F stage 1 microbatch 0 from rank 0  wait [compute] of the step before >= 1  (1 ms, 1 MiB)
    [compute] F stage 1 layer 0 microbatch 0  wait [recv from 0] >= 1  wait [collectives of replicas] of the step before >= 4  (1 ms, activation +64 MiB, context +16 MiB)
    [compute] F stage 1 layer 1 microbatch 0  wait [updates] of the step before >= 1  (1 ms)
    [compute] BW stage 1 microbatch 0  wait [send to 0] of the step before >= 1  (4 ms, activation -64 MiB, context -16 MiB)
    [send to 0] send B stage 1 microbatch 0 to rank 0  wait [compute] >= 3  (1 ms, 1 MiB)
    [recv from 0] recv F stage 1 microbatch 1 from rank 0  wait [compute] of the step before >= 4  (1 ms, 1 MiB)
    [compute] F stage 1 microbatch 1  wait [recv from 0] >= 2  (2 ms, activation +64 MiB, context +16 MiB)
    [compute] BW stage 1 layer 1 microbatch 1  (2 ms)
    [compute] BW stage 1 layer 0 microbatch 1  wait [send to 0] of the step before >= 2  (2 ms, activation -64 MiB, context -16 MiB)
    [send to 0] send B stage 1 microbatch 1 to rank 0  wait [compute] >= 6  (1 ms, 1 MiB)
    [collectives of replicas] all_reduce gradients stage 1 layer 1 bytes 4194304 to 5242879 group 1  wait [compute] >= 5  (1 ms, 1 MiB)
    [collectives of replicas] all_reduce gradients stage 1 layer 1 bytes 5242880 to 7340031 group 1  (1 ms, 2 MiB)
    [collectives of replicas] reduce_scatter gradients stage 1 layer 0 group 1  wait [compute] >= 6  (1 ms, 4 MiB)
    [collectives] all_reduce norm  wait [collectives of replicas] >= 3  (1 ms, 8 B)
    [updates] optimizer stage 1 layer 1  wait [collectives of replicas] >= 2  wait [collectives] >= 1  (500 us)
    [updates] optimizer stage 1 layer 0  wait [collectives of replicas] >= 3  wait [collectives] >= 1  (500 us)
    [collectives of replicas] all_gather weights stage 1 layer 0 group 1  wait [updates] >= 2  (1 ms, 2 MiB)
)");
}

TEST(Disassemble, Shards) {
  Sharded how;
  how.make.ranks = 1;
  how.make.microbatches = 1;
  how.make.slots = 1;
  how.factors = {Own::kWhole, 2'500'000};
  Plan plan = makeShards(how);
  plan.variants[0].portions[1].worked = {{4, 1}, {6, 2}};
  plan.variants[0].portions[1].kept = 3;
  const std::string text = disassemble(plan, {});
  EXPECT_EQ(text, R"(plan: 1 ranks, 2 shards of each, 1 variants, spec 0123456789abcdef
group 0: processes 0 1
variant 0 shards: 1 stages, 1 microbatches, no memory limit
  makespan 0 ps, at least 0 ps (none)
  span 0 ps, at least 0 ps (none)
  balance {"name": "even"}
  split 'heads' of stage 0 layers 0 to 0: 8 units
    shard 0 owns 0 to 3; works on 0 to 3; keeps 4
    shard 1 owns 4 to 7; works on 4, 6 to 7; keeps 3
  rank 0: stages 0, static 6 GiB, workspace 1 MiB, 3 instructions
    shard 0: factor 1, static 6 GiB, workspace 1 MiB
      F stage 0: 5 ms, between sums 2.5 ms, then 2.5 ms, activation 1 GiB, context 256 MiB
      BW stage 0: 9.5 ms, between sums 4.75 ms, then 4.75 ms, activation 1 GiB, context 256 MiB
      optimizer stage 0: 5 ms
    shard 1: factor 2.5, static 6 GiB, workspace 1 MiB
      F stage 0: 12.5 ms, between sums 6.25 ms, then 6.25 ms, activation 1 GiB, context 256 MiB
      BW stage 0: 23.75 ms, between sums 11.875 ms, then 11.875 ms, activation 1 GiB, context 256 MiB
      optimizer stage 0: 12.5 ms
    queue 0: compute
    [compute] F stage 0 microbatch 0  (own time + 6.75 ms with sums of group 0, activation +1 GiB, context +256 MiB)
    [compute] BW stage 0 microbatch 0  (own time + 12.375 ms with sums of group 0, activation -1 GiB, context -256 MiB)
    [compute] optimizer stage 0  (own time)
)");
}

TEST(Disassemble, StagesOnSeveralRanks) {
  const std::string text =
      disassemble(makeBurst({.widths = {3, 1}, .batch = 5, .layers = 1, .norm = true}), {.rank = 1});
  EXPECT_EQ(text, R"(plan: 3 ranks, 1 variants, spec 0123456789abcdef
group 0: ranks 0 1 2
variant 0 burst: 2 stages, 1 microbatches, no memory limit
  stage 0 of 5 samples: group 0
  stage 1 of 5 samples: rank 0
  makespan 0 ps, at least 0 ps (none)
  span 0 ps, at least 0 ps (none)
  layer 0 of stage 0: 4 MiB of gradients
  layer 0 of stage 1: 4 MiB of gradients
  rank 1: stages 0, static 100 MiB, workspace 1 MiB, 7 instructions
    queue 0: compute
    queue 1: collectives of stages
    queue 2: collectives
    [compute] F stage 0 microbatch 0  (2 ms, activation +128 MiB, context +32 MiB)
    [collectives of stages] reshard F stage 0 group 0  wait [compute] >= 1  (1.6 ms, 3 MiB)
    [collectives of stages] reshard B stage 1 group 0  wait [compute] of the step before >= 3  (1.6 ms, 3 MiB)
    [compute] BW stage 0 microbatch 0  wait [collectives of stages] >= 2  (4 ms, activation -128 MiB, context -32 MiB)
    [collectives of stages] all_reduce gradients stage 0 layer 0 bytes 0 to 4194303 group 0  wait [compute] >= 2  (3 ms, 4 MiB)
    [collectives] all_reduce norm  wait [collectives of stages] >= 3  wait [compute] >= 2  (300 us, 8 B)
    [compute] optimizer stage 0  wait [collectives of stages] >= 3  wait [collectives] >= 1  (700 us)
)");
  Plan plan = makeBurst({.widths = {2, 1}});
  Program &p = plan.variants[0].programs[0];
  EXPECT_EQ(describe(0, operationOf(p, Kind::Reshard, Payload::Forward), 0), "rank 0: reshard F stage 0 group 0");
  EXPECT_EQ(describe(0, operationOf(p, Kind::Reshard, Payload::Backward), 0), "rank 0: reshard B stage 1 group 0");
  // Where all stages are on as many, nothing changes ranks.
  EXPECT_EQ(queueName(makeBurst({.widths = {2}}).variants[0].programs[1], 1), "collectives of replicas");
}

} // namespace
} // namespace pipec::plan
