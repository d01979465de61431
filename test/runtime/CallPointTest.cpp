// When an interpreter asks for its next permit.
#include "runtime/interpreter/CallPoint.h"
#include "test/plan/MakePlan.h"
#include "test/runtime/Replicated.h"

#include <gtest/gtest.h>

using namespace pipec;
using namespace pipec::runtime;

namespace {

constexpr plan::Time kMs = 1'000'000'000;

// F 10 ms, BW 19 ms: the last operation of each rank is the optimizer's, 5 ms, behind the last BW.
TEST(CallPoint, IsTheLastInstructionAHorizonBeforeTheEnd) {
  plan::test::Make make;
  make.ranks = 2;
  make.microbatches = 4;
  const plan::Plan plan = plan::test::makePlan(make);
  for (const plan::Time horizon : {1 * kMs, 5 * kMs, 20 * kMs, 60 * kMs})
    for (const CallPoint &point : callPoints(plan.variants.front(), horizon)) {
      EXPECT_FALSE(point.atOnce());
      EXPECT_GE(point.rest, horizon);
      EXPECT_LE(point.rest, horizon + 60 * kMs);
    }
  const std::vector<CallPoint> points = callPoints(plan.variants.front(), 5 * kMs);
  EXPECT_EQ(points[0].rest, 5 * kMs);
  EXPECT_EQ(points[0].count, 8); // all but the optimizer
  EXPECT_EQ(callPoints(plan.variants.front(), 20 * kMs)[0].count, 7);
}

TEST(CallPoint, IsTheBeginningOfAShortStep) {
  const plan::Plan plan = plan::test::makePlan({});
  for (const CallPoint &point : callPoints(plan.variants.front(), 10'000'000 * kMs)) {
    EXPECT_TRUE(point.atOnce());
    EXPECT_GT(point.rest, 0);
  }
}

// The first layer's update ends at 10.1 ms, and the next step begins with its forward, before the second layer's at 11
// ms: what counts is when the next step begins.
TEST(CallPoint, IsAHorizonBeforeTheNextStepWhereStepsOverlap) {
  const plan::Plan plan = test::makeReplicated({.layers = 2, .sums = test::Replicated::Sums::Decoupled});
  const CallPoint point = callPoints(plan.variants.front(), kMs).front();
  EXPECT_EQ(point.queue, 0u);
  EXPECT_EQ(point.count, 6); // all passes, which end at 8 ms
  EXPECT_EQ(point.rest, 21 * kMs / 10);
}

} // namespace
