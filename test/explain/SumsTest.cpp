// Why a shard waits in a sum: its chain goes by way of the shard that came last.
#include "compiler/explain/Explain.h"
#include "test/plan/MakeShards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipec {
namespace {

using plan::Time;
using testing::HasSubstr;

constexpr Time kMs = 1'000'000'000;

plan::Variant twoRanks() {
  plan::test::Sharded how;
  how.make.ranks = 2;
  how.make.microbatches = 4;
  how.factors = {plan::Own::kWhole, 3 * plan::Own::kWhole, 2 * plan::Own::kWhole, plan::Own::kWhole};
  return makeShards(how).variants.front();
}

// F on rank 0: shard 0 comes to the first sum at 5 ms, shard 1 at 15 ms; both go on at 23 ms (0.5 ms of sums, 7.5 ms of
// shard 1 between them).
TEST(Sums, NameTheShardThatCameLast) {
  emit::Explanation found;
  ASSERT_EQ(emit::explain(twoRanks(), 0, 8 * kMs, found, 0).message, "");
  EXPECT_FALSE(found.busy);
  EXPECT_TRUE(found.meets);
  EXPECT_EQ(found.from, 5 * kMs);
  EXPECT_EQ(found.to, 15 * kMs);
  ASSERT_EQ(found.chain.size(), 2u);
  EXPECT_EQ(found.chain[0].why, simulate::Why::Sum);
  EXPECT_EQ(found.chain[1].place, 1);
  EXPECT_EQ(found.chain[1].why, simulate::Why::Begin);
  const std::string text = emit::explanationText(found, 10);
  EXPECT_THAT(text, HasSubstr("rank 0 shard 0 waits in a sum from 5 ms to 15 ms. What goes on then, and its causes:\n"
                              "       15 ms to    25.5 ms  rank 0 shard 0 runs F stage 0 microbatch 0, with the last "
                              "shard of its rank\n"
                              "        0 ps to      15 ms  rank 0 shard 1 runs F stage 0 microbatch 0, at the start of "
                              "the step\n"));
  const std::string json = emit::explanationJson(found);
  EXPECT_THAT(json, HasSubstr(R"("rank": 0,
  "shard": 0,)"));
  EXPECT_THAT(json, HasSubstr(R"("because": "sum")"));

  ASSERT_EQ(emit::explain(twoRanks(), 0, 8 * kMs, found, 1).message, "");
  EXPECT_TRUE(found.busy);
  EXPECT_EQ(found.chain.size(), 1u);
  ASSERT_EQ(emit::explain(twoRanks(), 0, 2 * kMs, found, 0).message, "");
  EXPECT_TRUE(found.busy);
  EXPECT_EQ(found.to, 5 * kMs);
  ASSERT_EQ(emit::explain(twoRanks(), 0, 16 * kMs, found, 0).message, "");
  EXPECT_TRUE(found.busy);
  EXPECT_EQ(found.from, 15 * kMs);
  EXPECT_EQ(emit::explain(twoRanks(), 0, 0, found, 2).message, "there is no shard 2 of a rank: the shards are 0 to 1");
  EXPECT_EQ(emit::explain(twoRanks(), 0, 0, found, 2).code, Code::Usage);
}

TEST(Sums, ChainsHaveNoHoles) {
  const plan::Variant variant = twoRanks();
  simulate::Recording recording;
  ASSERT_TRUE(recording.run(variant, {}).ok());
  int sums = 0;
  for (int32_t place = 0; place != 4; ++place)
    for (int i = 0; i != 60; ++i) {
      const Time at = recording.result.makespan * i / 60;
      emit::Explanation found;
      ASSERT_EQ(emit::explain(variant, place / 2, at, found, place % 2).message, "");
      EXPECT_LE(found.from, at);
      EXPECT_GT(found.to, at);
      ASSERT_FALSE(found.chain.empty());
      if (!found.next.empty()) {
        EXPECT_EQ(found.chain.front().start, found.busy ? found.from : found.to);
      }
      for (size_t link = 1; link != found.chain.size(); ++link)
        EXPECT_EQ(found.chain[link].end, found.chain[link - 1].start) << found.chain[link].what;
      EXPECT_EQ(found.chain.back().start, 0);
      EXPECT_EQ(found.chain.back().why, simulate::Why::Begin);
      sums += found.meets;
    }
  EXPECT_GT(sums, 30);
  // The critical path likewise, where what a sum held counts from when the shards met.
  const std::vector<simulate::Occurrence> path = recording.criticalPath(0);
  Time end = 0;
  for (size_t i = 0; i != path.size(); ++i) {
    const simulate::Executed &own = recording.at(path[i]);
    const std::optional<simulate::Cause> held = recording.heldBy(path[i]);
    EXPECT_EQ(held ? own.met : own.start, end);
    end = i + 1 != path.size() && recording.heldBy(path[i + 1]) ? own.met : own.end;
  }
  EXPECT_EQ(end, recording.result.makespan);
}

} // namespace
} // namespace pipec
