// The communicators of a plan: who is in them, and in which order they are made.
#include "runtime/transport/nccl/Communicators.h"
#include "test/runtime/Plans.h"

#include <gtest/gtest.h>

using namespace pipec;
using namespace pipec::runtime;
using Ranks = std::vector<int32_t>;
using Edges = std::vector<std::pair<int32_t, int32_t>>;

namespace {

plan::Plan planOf(int32_t ranks, bool shared) {
  test::Pipeline pipeline;
  pipeline.ranks = ranks;
  pipeline.shared = shared;
  return test::makePlan(pipeline);
}

TEST(Communicators, AnEdgeOfItsOwnQueuesIsOneOfTwoRanks) {
  const std::vector<Communicator> all = communicatorsOf(planOf(3, false));
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].ranks, (Ranks{0, 1}));
  EXPECT_EQ(all[0].edges, (Edges{{0, 1}}));
  EXPECT_EQ(all[1].edges, (Edges{{1, 0}}));
  EXPECT_EQ(all[2].edges, (Edges{{1, 2}}));
  EXPECT_EQ(all[3].ranks, (Ranks{1, 2}));
  EXPECT_EQ(all[3].placeOf(2), 1);
  for (const Communicator &each : all)
    EXPECT_EQ(each.queuesOf.size(), 2u);
}

TEST(Communicators, OneQueueForAllIsOneOfAllRanks) {
  const std::vector<Communicator> all = communicatorsOf(planOf(4, true));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].ranks, (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(all[0].edges.size(), 6u);
}

TEST(Communicators, ASumJoinsWhoTakesPart) {
  plan::Plan plan = planOf(3, false);
  for (plan::Program &program : plan.variants.front().programs) {
    uint32_t queue = 0; // of the first transfer
    for (const plan::Instruction &i : program.instructions)
      if (plan::isTransfer(program.operations[i.operation].kind))
        queue = i.queue;
    program.operations.push_back({plan::Kind::AllReduce, plan::Payload::None, program.rank, -1, 0, 0, 8, 0, 0});
    program.instructions.push_back({uint32_t(program.operations.size() - 1), queue, 0, 0, 0, 0});
  }
  const std::vector<Communicator> all = communicatorsOf(plan);
  ASSERT_LT(all.size(), 4u);
  const auto whole = std::find_if(all.begin(), all.end(), [](const Communicator &c) { return c.ranks.size() == 3; });
  EXPECT_NE(whole, all.end());
}

} // namespace
