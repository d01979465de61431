// What passes take with given portions, against examples worked by hand.
#include "compiler/portions/Fixed.h"
#include "compiler/portions/Held.h"
#include "compiler/portions/Timing.h"

#include <gtest/gtest.h>

using namespace pipec::portions;

namespace {

/// Two shards, the second twice as slow; a layer with own work and two splits.
Group twoShards() {
  Group group;
  group.factors = {kNoSlower, 2 * kNoSlower};
  group.link = {.latency = 5, .bandwidth = 0}; // an all-reduce of two: two hops
  Layer layer;
  layer.own.set(Figure::Forward, 10);
  layer.own.set(Figure::BackwardInput, 20);
  layer.own.set(Figure::BackwardWeight, 7);
  Split heads;
  heads.set(Figure::Forward, 80);
  heads.set(Figure::BackwardInput, 100);
  heads.set(Figure::BackwardWeight, 60);
  heads.units = 4;
  Split columns = heads;
  columns.set(Figure::Forward, 40);
  columns.units = 8;
  layer.splits = {heads, columns};
  group.stages = {{.runs = {{layer, 3}}}};
  return group;
}

using Times = std::vector<Time>;

TEST(TimingOfPortions, ForwardSumsBehindEachSplit) {
  const Group group = twoShards();
  const Portions even = evenPortions(group);
  const Timing forward = timingOf(group, group.stages[0], even[0], Pass::Forward);
  // Half of each split: 40 and 20; on the slow shard 80 and 40. Layers: own + heads, sum, columns, sum.
  EXPECT_EQ(forward.before, (Times{50, 100}));
  EXPECT_EQ(forward.cost, 6 * 10 + 3 * 40 + 2 * 100);
  EXPECT_EQ(forward.after, (Times{0, 0}));
  EXPECT_TRUE(forward.meets);
  EXPECT_EQ(forward.own, (Times{3 * 70, 3 * 140}));
  EXPECT_EQ(forward.whole(), 100 + 60 + 120 + 200);
}

TEST(TimingOfPortions, BackwardEndsWithOwnWork) {
  const Group group = twoShards();
  const Portions even = evenPortions(group);
  const Timing split = timingOf(group, group.stages[0], even[0], Pass::BackwardInput);
  EXPECT_EQ(split.before, (Times{50, 100}));
  EXPECT_EQ(split.cost, 60 + 3 * 100 + 2 * 140); // columns of the second and third layer come behind 40 of own work
  EXPECT_EQ(split.after, (Times{20, 40}));
  const Timing fused = timingOf(group, group.stages[0], even[0], Pass::Backward);
  EXPECT_EQ(fused.before, (Times{80, 160}));
  EXPECT_EQ(fused.cost, 60 + 3 * 160 + 2 * (160 + 54));
  EXPECT_EQ(fused.after, (Times{27, 54}));
}

TEST(TimingOfPortions, WeightsAndOptimizerHaveNoSum) {
  Group group = twoShards();
  group.stages[0].runs[0].layer.splits[1].set(Figure::Optimizer, 12);
  const Portions even = evenPortions(group);
  const Timing weights = timingOf(group, group.stages[0], even[0], Pass::BackwardWeight);
  EXPECT_EQ(weights.before, (Times{3 * 67, 3 * 134}));
  EXPECT_EQ(weights.cost, 0);
  EXPECT_FALSE(weights.meets);
  EXPECT_EQ(timingOf(group, group.stages[0], even[0], Pass::Optimizer).before, (Times{18, 36}));
}

TEST(TimingOfPortions, SequenceMeetsOnBothSidesOfASplit) {
  Group group = twoShards();
  group.sequence = true;
  for (Split &split : group.stages[0].runs[0].layer.splits)
    split.sum = 1'000'000;
  group.link.bandwidth = 1'000'000'000'000; // half of it in 500'000 ps, either way
  const Portions even = evenPortions(group);
  const Timing forward = timingOf(group, group.stages[0], even[0], Pass::Forward);
  EXPECT_EQ(forward.before, (Times{10, 20}));
  EXPECT_EQ(forward.cost, 12 * 500'005 + 3 * (80 + 40) + 2 * 20);
  const Timing backward = timingOf(group, group.stages[0], even[0], Pass::BackwardInput);
  EXPECT_EQ(backward.before, (Times{0, 0}));
  EXPECT_EQ(backward.cost, 12 * 500'005 + 3 * (100 + 100) + 2 * 40);
  EXPECT_EQ(backward.after, (Times{20, 40}));
}

TEST(TimingOfPortions, RecomputeIsAForwardOfItsOwnTimes) {
  Group group = twoShards();
  group.stages[0].recomputed = true;
  const Portions even = evenPortions(group);
  EXPECT_EQ(timingOf(group, group.stages[0], even[0], Pass::Recompute),
            timingOf(group, group.stages[0], even[0], Pass::Forward));
  group.stages[0].runs[0].layer.own.set(Figure::Recompute, 0);
  group.stages[0].runs[0].layer.splits[1].set(Figure::Recompute, 4);
  const Timing again = timingOf(group, group.stages[0], even[0], Pass::Recompute);
  EXPECT_EQ(again.before, (Times{40, 80}));
  EXPECT_EQ(again.cost, 6 * 10 + 3 * 4 + 2 * 80);
  group.microbatches = 2;
  EXPECT_EQ(stepOf(group, even), 2 * (timingOf(group, group.stages[0], even[0], Pass::Forward).whole() + again.whole() +
                                      timingOf(group, group.stages[0], even[0], Pass::Backward).whole()));
}

TEST(TimingOfPortions, LayersWithoutSplitsJoinTheirNeighbours) {
  Group group = twoShards();
  LayerRun plain;
  plain.count = 5;
  plain.layer.own.set(Figure::Forward, 100);
  plain.layer.own.set(Figure::Backward, 1000);
  group.stages[0].runs.push_back(plain);
  const Portions even = evenPortions(group);
  const Timing forward = timingOf(group, group.stages[0], even[0], Pass::Forward);
  EXPECT_EQ(forward.before, (Times{50, 100}));
  EXPECT_EQ(forward.after, (Times{500, 1000}));
  EXPECT_EQ(timingOf(group, group.stages[0], even[0], Pass::Backward).before, (Times{5080, 10160}));
}

TEST(TimingOfPortions, EqualLayersTakeWhatTheyTakeOneByOne) {
  Group group = twoShards();
  for (int64_t count = 1; count != 6; ++count) {
    Group single = group;
    group.stages[0].runs[0].count = count;
    single.stages[0].runs.assign(size_t(count), single.stages[0].runs[0]);
    for (LayerRun &run : single.stages[0].runs)
      run.count = 1;
    const Portions one = evenPortions(group), other = evenPortions(single);
    for (size_t pass = 0; pass != kPasses; ++pass)
      EXPECT_EQ(timingOf(group, group.stages[0], one[0], Pass(pass)),
                timingOf(single, single.stages[0], other[0], Pass(pass)));
  }
}

TEST(TimingOfPortions, RoundEachTermOnceHalfUp) {
  EXPECT_EQ(termOf(1'500'000, 1, 1, 1), 2);
  EXPECT_EQ(termOf(1'499'999, 1, 1, 1), 1);
  EXPECT_EQ(termOf(kNoSlower, 1, 1, 2), 1);
  EXPECT_EQ(termOf(kNoSlower, 1, 1, 3), 0);
  EXPECT_EQ(termOf(kNoSlower, 5, 3, 7), 2);     // 2.14
  EXPECT_EQ(termOf(3 * kNoSlower, 5, 3, 7), 6); // 6.43, not 3 times 2
  EXPECT_EQ(termOf(kMostFactor, pipec::limits::kTime, kMostUnits, kMostUnits), kMostTime);
}

TEST(TimingOfPortions, OneShardHasNoSums) {
  Group group = twoShards();
  group.factors = {2 * kNoSlower};
  const Portions even = evenPortions(group);
  const Timing forward = timingOf(group, group.stages[0], even[0], Pass::Forward);
  EXPECT_EQ(forward.before, (Times{3 * 260}));
  EXPECT_EQ(forward.cost, 0);
  EXPECT_FALSE(forward.meets);
}

TEST(TimingOfPortions, UnitsThatAreWorkedElsewhereAreExchanged) {
  Group group = twoShards();
  Split &heads = group.stages[0].runs[0].layer.splits[0];
  heads.set(Figure::Gradients, 10);
  heads.set(Figure::Optimizer, 8);
  group.stages[0].runs[0].layer.splits[1].set(Figure::Weights, 100); // stays: nothing of it moves
  group.link = {.latency = 5, .bandwidth = 1'000'000'000'000};
  Portions portions = evenPortions(group);
  portions[0][0][0] = movedPortions({3, 1}); // one of four heads in three layers
  const Moved moved = movedOf(group, group.stages[0], portions[0]);
  EXPECT_EQ(moved.gradients, 3 * 3); // 2.5 rounded up
  EXPECT_EQ(moved.weights, 3 * 3);   // those of the gradients
  EXPECT_EQ(moved.all, 18);
  const Timing optimizer = timingOf(group, group.stages[0], portions[0], Pass::Optimizer);
  EXPECT_EQ(optimizer.before, (Times{0, 0}));
  EXPECT_EQ(optimizer.cost, (5 + 9) + 3 * 8 + (5 + 9)); // the slow owner updates half
  EXPECT_TRUE(optimizer.meets);
  heads.set(Figure::Weights, 100);
  EXPECT_EQ(timingOf(group, group.stages[0], portions[0], Pass::Optimizer).cost, (5 + 9) + 24 + (5 + 75));
}

TEST(HeldByPortions, EachTermIsRoundedUp) {
  Group group = twoShards();
  Layer &layer = group.stages[0].runs[0].layer;
  layer.own.set(Figure::Activation, 7);
  layer.own.set(Figure::Weights, 1);
  layer.splits[0].set(Figure::Activation, 10);
  layer.splits[0].set(Figure::Weights, 10);
  layer.splits[0].set(Figure::OptimizerState, 21);
  group.stages[0].inFlight = 2;
  group.staticBytes = {100, 200};
  group.workspace = 1000;
  Portions portions = evenPortions(group);
  portions[0][0][0] = movedPortions({3, 1});
  const std::vector<Held> held = heldOf(group, group.stages[0], portions[0]);
  EXPECT_EQ(held[0][Figure::Activation], 3 * (7 + 8)); // 7.5 of three heads
  EXPECT_EQ(held[1][Figure::Activation], 3 * (7 + 3));
  EXPECT_EQ(held[0][Figure::Static], 3 * (1 + 8 + 11)); // three worked, two owned
  EXPECT_EQ(held[1][Figure::Static], 3 * (1 + 5 + 11)); // of two owned one is worked
  EXPECT_EQ(needsOf(group, portions), (std::vector<Bytes>{1100 + 60 + 2 * 45, 1200 + 51 + 2 * 30}));
}

} // namespace
