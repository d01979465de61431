// The decision maker with steps that the test makes up.
#include "runtime/adapt/Decider.h"
#include "runtime/adapt/Measured.h"
#include "runtime/adapt/Profiler.h"
#include "test/plan/MakePlan.h"

#include <gtest/gtest.h>

using namespace pipec;
using adapt::Time;

namespace {

constexpr Time kMs = 1'000'000'000;

/// 1F1B with rings of so many slots, which differ where transfers take long.
plan::Plan planOf(uint32_t slots) {
  plan::test::Make make;
  make.ranks = 2;
  make.slots = slots;
  return plan::test::makePlan(make);
}

/// A run of which the test says what transfers and steps take.
class Told {
public:
  Told() : plans{planOf(1), planOf(2), planOf(4)} {
    for (const plan::Plan &plan : plans)
      variants.push_back(&plan.variants.front());
    decider.emplace(std::vector<const plan::Variant *>{variants[0], variants[1]});
  }

  /// What each variant takes where transfers do so long.
  Time predicted(size_t variant, Time transfer) const {
    simulate::Scenario network;
    for (const auto &link : {std::pair(0, 1), std::pair(1, 0)})
      network.links[link] = {{0, int64_t(__int128(kBytes) * 1'000'000'000'000 / transfer), 0}};
    return adapt::Forecast({variants[variant]}).stepTime(0, network, 2);
  }

  /// A step in which transfers took so long; the one before it took `took`.
  adapt::Decision step(Time transfer, Time took, bool swapped = false) {
    adapt::StepReport report{running, {}, took, before, swapped};
    for (int s = 0; s != adapt::kSlices; ++s, now += 100 * kMs) {
      adapt::Slice &slice = report.slices.emplace_back(adapt::Slice{now, now + 100 * kMs, {}, {}});
      slice.links[{0, 1}].add(transfer, 0, kBytes);
      slice.links[{1, 0}].add(transfer, 0, kBytes);
    }
    const adapt::Decision decision = decider->decide(report);
    before = running;
    running = decision.to;
    return decision;
  }

  static constexpr plan::Bytes kBytes = plan::Bytes(16) << 20;
  std::vector<plan::Plan> plans;
  std::vector<const plan::Variant *> variants;
  std::optional<adapt::Decider> decider;
  size_t running = 0, before = 0;
  Time now = 0;
};

TEST(Decider, GoesOverToWhatIsShorter) {
  Told run;
  ASSERT_LT(run.predicted(1, 100 * kMs), run.predicted(0, 100 * kMs));
  EXPECT_EQ(run.step(100 * kMs, 0).to, 1u);
  EXPECT_EQ(run.step(100 * kMs, run.predicted(0, 100 * kMs)).to, 1u);
}

TEST(Decider, ASwapThatDoesNotBringWhatItPromisedIsUndone) {
  Told run;
  const Time promised = run.predicted(1, 100 * kMs), stays = run.predicted(0, 100 * kMs);
  EXPECT_EQ(run.step(100 * kMs, 0).to, 1u);
  run.step(100 * kMs, stays);
  run.step(100 * kMs, promised, true); // the first behind a swap says nothing
  for (int i = 0; run.running == 1 && i != 3; ++i)
    run.step(100 * kMs, stays + stays / 50);
  EXPECT_EQ(run.running, 0u);
  for (int i = 0; i != 20; ++i)
    EXPECT_EQ(run.step(100 * kMs, stays).to, 0u); // and is not tried again on the same network
}

TEST(Decider, WhatWasDecidedNeedNotHaveBeenDone) {
  Told run;
  EXPECT_EQ(run.step(100 * kMs, 0).to, 1u);
  run.running = 0; // the decision was too late
  EXPECT_EQ(run.step(100 * kMs, 0).from, 0u);
}

TEST(Decider, OthersMayBeChosenFrom) {
  Told run;
  run.step(100 * kMs, 0);
  run.decider->choose({run.variants[0], run.variants[2]}, 0);
  run.running = run.before = 0;
  const adapt::Decision decision = run.step(100 * kMs, 0);
  EXPECT_EQ(decision.predicted.size(), 2u);
  EXPECT_EQ(decision.to, 1u);
  EXPECT_EQ(run.decider->estimates().links().at({0, 1}).samples, 16); // what was known stays
}

TEST(Decider, SaysWhatItHasWon) {
  Told run;
  const Time stays = run.predicted(0, 100 * kMs), goes = run.predicted(1, 100 * kMs);
  run.step(100 * kMs, 0);
  for (int i = 0; i != 10; ++i)
    run.step(100 * kMs, 0);
  EXPECT_NEAR(double(run.decider->won()), 10 * double(stays - goes), 0.1 * double(stays));
}

/// More candidates than can be walked in time: those that are not are looked at by turns, and the best is found.
TEST(Decider, ManyCandidatesAreLookedAtByTurns) {
  std::vector<plan::Plan> plans;
  std::vector<const plan::Variant *> variants;
  for (uint32_t v = 0; v != 16; ++v) {
    plan::test::Make make;
    make.ranks = 8;
    make.microbatches = 64;
    make.slots = 1;
    make.forward -= v == 13 ? 2 * kMs : 0; // the best, which nobody knows before it is walked
    plans.push_back(plan::test::makePlan(make));
  }
  int64_t size = 0;
  for (plan::Plan &plan : plans) {
    variants.push_back(&plan.variants.front());
    plan.variants.front().certificate.makespan = 10'000 * kMs;
    size += adapt::Forecast({variants.back()}).size(0);
  }
  ASSERT_GT(3 * 2 * size, 100'000); // two steps each under three networks
  adapt::Decider decider(variants);
  size_t running = 0;
  Time now = 0;
  for (int step = 0; step != 40 && running != 13; ++step) {
    adapt::StepReport report{running, {}, 0, 0, false};
    for (int s = 0; s != adapt::kSlices; ++s, now += 100 * kMs) {
      adapt::Slice &slice = report.slices.emplace_back(adapt::Slice{now, now + 100 * kMs, {}, {}});
      for (int32_t rank = 0; rank != 7; ++rank)
        for (const auto &link : {std::pair(rank, rank + 1), std::pair(rank + 1, rank)})
          slice.links[link].add(2 * kMs, 0, Told::kBytes);
    }
    const adapt::Decision decision = decider.decide(report);
    EXPECT_EQ(decision.predicted.size(), 16u);
    EXPECT_GT(*std::min_element(decision.predicted.begin(), decision.predicted.end()), 0);
    running = decision.to;
  }
  EXPECT_EQ(running, 13u);
}

/// A load that comes every eight steps is answered in the step in which it comes.
TEST(Decider, APeriodIsAnticipated) {
  Told run;
  for (plan::Program &program : run.plans[1].variants.front().programs)
    for (plan::Operation &each : program.operations)
      if (!plan::isTransfer(each.kind))
        each.cost += each.cost / 100; // the second is the longer one while nothing is loaded
  run.decider.emplace(std::vector<const plan::Variant *>{run.variants[0], run.variants[1]});
  ASSERT_LT(run.predicted(0, kMs), run.predicted(1, kMs));
  ASSERT_LT(run.predicted(1, 30 * kMs), run.predicted(0, 30 * kMs));
  for (int step = 0; step != 80; ++step) {
    const adapt::Decision decision = run.step(step / 4 % 2 == 0 ? kMs : 30 * kMs, 0);
    if (step >= 40) {
      EXPECT_EQ(decision.to, size_t((step + 1) / 4 % 2)) << step;
    }
  }
}

TEST(Measured, WhatCannotBeIsKnown) {
  adapt::Tally tally;
  tally.add(5, 1, 10);
  const adapt::Sample good{100, tally, 0, 1};
  EXPECT_TRUE(adapt::isPossible(good, 2));
  EXPECT_FALSE(adapt::isPossible(good, 1));
  std::vector<adapt::Sample> bad(6, good);
  bad[0].tally.count = 0;
  bad[1].tally.least = -1;
  bad[2].tally.bytes = -1;
  bad[3].to = 0;
  bad[4].from = -1;
  bad[5].tally.sum = 4;
  for (const adapt::Sample &each : bad)
    EXPECT_FALSE(adapt::isPossible(each, 2));
}

TEST(Measured, WhatEndsLaterWaits) {
  adapt::Measured measured;
  adapt::Tally tally;
  tally.add(5, 1, 10);
  measured.add({100, tally, 0, 1});
  measured.add({790, tally, 0, 1});
  measured.add({801, tally, 0, 1});
  std::vector<adapt::Slice> slices = measured.report(800);
  ASSERT_EQ(slices.size(), size_t(adapt::kSlices));
  EXPECT_EQ(slices[1].links.at({0, 1}).count, 1);
  EXPECT_EQ(slices[7].links.at({0, 1}).count, 1);
  slices = measured.report(1600);
  EXPECT_EQ(slices[0].begin, 800);
  EXPECT_EQ(slices[0].links.at({0, 1}).bytes, 10);
}

TEST(Profiler, TriesAllAndTakesTheShortest) {
  adapt::Profiler profiler(3);
  EXPECT_EQ(profiler.next(0), 0u);
  EXPECT_EQ(profiler.next(2), 2u);
  profiler.took(0, 30);
  profiler.took(1, 10);
  EXPECT_EQ(profiler.next(3), 1u); // the third is not known yet
  profiler.took(2, 20);
  EXPECT_EQ(profiler.next(49), 1u);
  EXPECT_EQ(profiler.next(50), 0u);
}

} // namespace
