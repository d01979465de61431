// The times of steps of a run that goes from one variant to another, worked out by hand.
#include "runtime/simulate/Steps.h"
#include "runtime/simulate/SteppedRun.h"
#include "test/runtime/Plans.h"
#include "test/runtime/Replicated.h"

#include <gtest/gtest.h>
#include <set>

using namespace pipec;
using plan::Time;

namespace {

/// Two ranks and one microbatch: F takes 1, BW 2, a transfer nothing, and the last rank's optimizer `optimizer`.
plan::Variant variant(Time optimizer) {
  test::Pipeline pipeline;
  pipeline.microbatches = 1;
  pipeline.forward = 1;
  pipeline.backward = 2;
  pipeline.wire = pipeline.latency = pipeline.optimizer = 0;
  plan::Variant made = test::makePlan(pipeline).variants.front();
  for (plan::Operation &operation : made.programs.back().operations)
    if (operation.kind == plan::Kind::Optimizer)
      operation.cost = optimizer;
  return made;
}

// Rank 0: F 0-1, BW 4-6. Rank 1: F 1-2, BW 2-4, optimizer 4-14. Then the other variant: rank 0 begins at 6, rank 1 at
// 14, its F 14-15, BW 15-17, and rank 0's BW 17-19: 13 after it ended. In its second step F 19-20, 20-21, BW 21-23,
// 23-25.
TEST(Steps, TheFirstStepBehindASwapBeginsWhereEachRankEnded) {
  const plan::Variant before = variant(10), after = variant(0);
  std::vector<Time> times;
  ASSERT_TRUE(simulate::stepTimes({{&before, 1}, {&after, 2}}, nullptr, times).ok());
  EXPECT_EQ(times, (std::vector<Time>{13, 13, 6}));
  ASSERT_TRUE(simulate::stepTimes({{&after, 2}}, nullptr, times).ok());
  EXPECT_EQ(times, (std::vector<Time>{6, 6}));
}

TEST(Steps, StretchesWithoutAStepChangeNothing) {
  const plan::Variant before = variant(10), after = variant(0);
  std::vector<Time> times;
  ASSERT_TRUE(simulate::stepTimes({{&after, 0}, {&before, 1}, {&before, 0}, {&after, 1}}, nullptr, times).ok());
  EXPECT_EQ(times, (std::vector<Time>{13, 13}));
}

// From 15 on rank 0 takes twice its time: its BW 17-21, then F 21-23, 23-24, BW 24-26, 26-30.
TEST(Steps, ASwapDoesNotBeginTheScenarioAnew) {
  const plan::Variant before = variant(10), after = variant(0);
  simulate::Scenario scenario;
  scenario.slow[0] = {{15, simulate::kNever, 200}};
  std::vector<Time> times;
  ASSERT_TRUE(simulate::stepTimes({{&before, 1}, {&after, 2}}, &scenario, times).ok());
  EXPECT_EQ(times, (std::vector<Time>{13, 15, 9}));
}

// Step by step it is the run that one walk makes, and the events of all steps count on over a swap.
TEST(SteppedRun, GoesOnStepByStep) {
  const plan::Variant before = variant(10), after = variant(0);
  simulate::Options options;
  options.steps = 4;
  simulate::Result whole;
  ASSERT_TRUE(simulate::simulate(before, options, whole).ok());
  std::set<int64_t> steps;
  options.observe = [&](const simulate::Event &event) { steps.insert(event.step); };
  simulate::SteppedRun run(options);
  const std::vector<Time> times = simulate::stepTimes(whole, 4);
  for (int64_t step = 0; step != 4; ++step) {
    ASSERT_TRUE(run.step(before).ok());
    EXPECT_EQ(run.stepTime(), times[size_t(step)]);
    for (size_t rank = 0; rank != whole.places.size(); ++rank)
      EXPECT_EQ(run.ends()[rank], whole.places[rank].lastEnd[size_t(step)]);
  }
  const std::vector<Time> fence = run.fence();
  ASSERT_TRUE(run.step(after).ok());
  EXPECT_EQ(run.steps(), 5);
  for (size_t rank = 0; rank != fence.size(); ++rank)
    EXPECT_GE(run.ends()[rank], fence[rank]);
  EXPECT_EQ(steps, (std::set<int64_t>{0, 1, 2, 3, 4}));
}

// Each step but the first takes less than one alone, as the next begins beside its last updates.
TEST(Steps, ThatOverlapAreThoseOfOneWalk) {
  const plan::Plan plan = test::makeReplicated({.layers = 2, .sums = test::Replicated::Sums::Decoupled});
  const plan::Variant &variant = plan.variants.front(), other = variant;
  simulate::Options options;
  options.steps = 4;
  std::vector<Time> times, expected;
  ASSERT_TRUE(simulate::stepTimes(variant, options, expected).ok());
  ASSERT_TRUE(simulate::stepTimes({{&variant, 4}}, nullptr, times).ok());
  EXPECT_EQ(times, expected);
  EXPECT_LT(times[1], times[0]);
  std::vector<Time> swapped;
  ASSERT_TRUE(simulate::stepTimes({{&variant, 2}, {&other, 0}, {&other, 2}}, nullptr, swapped).ok());
  EXPECT_EQ(swapped.size(), 4u);
  EXPECT_EQ(swapped[0], times[0]);
  EXPECT_GT(swapped[2], times[2]) << "a swap comes once all queues are empty";
}

} // namespace
