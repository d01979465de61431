// The decision maker where ranks have shards, of which one becomes slow and healthy again, in virtual time.
#include "runtime/adapt/Measured.h"
#include "runtime/adapt/VirtualRun.h"
#include "test/plan/MakeShards.h"

#include <gtest/gtest.h>

using namespace pipec;
using plan::Time;

namespace {

constexpr Time kMs = 1'000'000'000;

/// Of two ranks of two shards each; the first one does so much of its rank's work, in tenths.
plan::Variant variantOf(int64_t tenths) {
  plan::test::Sharded how;
  how.make.ranks = 2;
  how.sum = kMs / 10;
  plan::Variant variant = plan::test::makeShards(how).variants.front();
  for (size_t place : {0, 1}) {
    const int64_t part = place == 0 ? tenths : 10 - tenths;
    for (plan::OwnCost &cost : variant.own[place].operations) {
      cost.before = cost.before * part / 5;
      cost.between = 0;
      cost.after = cost.after * part / 5;
    }
    for (plan::Portion &each : variant.portions)
      if (each.stage == 0)
        each.kept = part;
  }
  for (plan::Operation &each : variant.programs.front().operations)
    if (plan::meets(each))
      each.cost = 2 * how.sum;
  return variant;
}

TEST(SlowShards, AreMeasuredAndGetLess) {
  const plan::Variant even = variantOf(5), less = variantOf(2), least = variantOf(1);
  const std::vector<const plan::Variant *> candidates{&even, &less, &least};
  simulate::Scenario network;
  const Time step = 8 * 30 * kMs; // about
  network.slow[0] = {{20 * step, 80 * step, 400, 0}, {80 * step, 120 * step, 900, 0}};
  adapt::Course own, knowing;
  std::vector<adapt::Decision> decisions;
  adapt::Estimator estimates;
  ASSERT_TRUE(adapt::adaptive(candidates, network, 150, own, decisions, &estimates).ok());
  ASSERT_TRUE(adapt::oracle(candidates, network, 150, knowing).ok());
  EXPECT_LT(double(own.total), 1.03 * double(knowing.total));
  EXPECT_EQ(own.ran[10], 0u);
  EXPECT_EQ(own.ran.back(), 0u);
  EXPECT_EQ(own.switches(), knowing.switches());
  EXPECT_EQ(estimates.ranks().size(), 4u);
  for (const auto &[process, each] : estimates.ranks())
    EXPECT_EQ(each.percent, 100) << process;
}

TEST(SlowShards, TheirFactorsInThePlanAreReplacedByWhatIsMeasured) {
  plan::test::Sharded how;
  how.make.ranks = 1;
  how.shards = 3;
  how.factors = {plan::Own::kWhole, 4 * plan::Own::kWhole};
  const plan::Plan planned = plan::test::makeShards(how);
  simulate::Scenario network;
  network.slow[0] = {{0, simulate::kNever, 200, 2}};
  adapt::Course course;
  std::vector<adapt::Decision> decisions;
  adapt::Estimator estimates;
  ASSERT_TRUE(adapt::adaptive({&planned.variants.front()}, network, 5, course, decisions, &estimates).ok());
  EXPECT_EQ(estimates.ranks().at(0).percent, 100);
  EXPECT_EQ(estimates.ranks().at(1).percent, 400);
  EXPECT_EQ(estimates.ranks().at(2).percent, 200);
  const simulate::Scenario lately = estimates.lately({}, 1);
  ASSERT_EQ(lately.slow.at(0).size(), 3u);
  EXPECT_EQ(lately.slow.at(0)[1].percent, 400);
  EXPECT_EQ(lately.slow.at(0)[1].shard, 1);
}

TEST(SlowShards, OnlyWhatOneOfThemCanHaveMeasuredCounts) {
  adapt::Sample sample{kMs, {}, 5, -1};
  sample.tally.add(kMs, kMs, 0);
  EXPECT_TRUE(adapt::isPossible(sample, 2, 3));
  EXPECT_FALSE(adapt::isPossible(sample, 2, 2));
  sample.to = 1;
  EXPECT_FALSE(adapt::isPossible(sample, 2, 3));
}

} // namespace
