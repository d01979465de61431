// What the policies give to whom, against examples worked by hand and the shapes of the paper.
#include "compiler/portions/Choose.h"
#include "compiler/portions/Fixed.h"
#include "compiler/portions/Held.h"
#include "compiler/portions/Ranges.h"
#include "compiler/portions/Timing.h"
#include "test/portions/RandomGroups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

using namespace pipec::portions;

namespace {

using Counts = std::vector<int64_t>;
constexpr Time kMs = 1'000'000'000;

Counts countsOf(const SplitPortions &split, int64_t (*of)(const Portion &)) {
  Counts counts;
  for (const Portion &each : split)
    counts.push_back(of(each));
  return counts;
}
int64_t ownedBy(const Portion &portion) { return unitsOf(portion.owned); }
int64_t workedBy(const Portion &portion) { return unitsOf(portion.worked); }
int64_t keptBy(const Portion &portion) { return portion.kept; }

/// Four shards, the first four times as slow, one split of 26 units of 1 ms forward and 2 ms backward.
Group fourShards(int64_t units = 26) {
  Group group;
  group.factors = {4 * kNoSlower, kNoSlower, kNoSlower, kNoSlower};
  Split split;
  split.units = units;
  split.set(Figure::Forward, units * kMs);
  split.set(Figure::Backward, 2 * units * kMs);
  group.stages = {{.runs = {{{{}, {split}}, 2}}}};
  return group;
}

SplitPortions only(const Chosen &chosen) { return chosen.portions[0][0][0]; }

TEST(PortionPolicies, EvenIsTheEqualCut) {
  const Chosen even = Chooser().choose(fourShards(), {.policy = Policy::Even});
  EXPECT_EQ(countsOf(only(even), ownedBy), (Counts{7, 7, 6, 6}));
  EXPECT_EQ(countsOf(only(even), keptBy), (Counts{7, 7, 6, 6}));
  EXPECT_EQ(even.time, 2 * 3 * 28 * kMs);
  EXPECT_EQ(even.lower, 2 * 3 * 8 * kMs); // what the best do
}

TEST(PortionPolicies, AutoGivesASlowShardLess) {
  const Chosen best = Chooser().choose(fourShards(), {});
  EXPECT_EQ(countsOf(only(best), ownedBy), (Counts{2, 8, 8, 8}));
  EXPECT_EQ(only(best)[1].owned, (Ranges{{2, 8}}));
  EXPECT_EQ(only(best)[1].owned, only(best)[1].worked);
  EXPECT_EQ(best.time, 2 * 3 * 8 * kMs);
  EXPECT_EQ(best.lower, best.time);
}

TEST(PortionPolicies, AutoOfEqualShardsIsEven) {
  Group group = fourShards();
  group.factors.assign(4, kNoSlower);
  EXPECT_EQ(Chooser().choose(group, {}).portions, evenPortions(group));
  EXPECT_EQ(Chooser().choose(group, {.policy = Policy::Migrate}).portions, evenPortions(group));
}

TEST(PortionPolicies, AutoKeepsWhatFitsInHealthyTime) {
  // Healthy: 7 units. 1 + 3 * 7 = 22 of 26 fit; a quarter may be left out, of which four of 26 are needed.
  const Chosen chosen = Chooser().choose(fourShards(), {.most = 250'000});
  EXPECT_EQ(countsOf(only(chosen), keptBy), (Counts{1, 7, 7, 7}));
  EXPECT_EQ(countsOf(only(chosen), ownedBy), (Counts{1, 9, 8, 8})); // 1.18 and 8.27
  EXPECT_EQ(chosen.time, 2 * 3 * 7 * kMs);
  EXPECT_EQ(chosen.lower, chosen.time);
  // At most two may be left out: the least time of 24 is 8 units', in which all fit.
  EXPECT_EQ(Chooser().choose(fourShards(), {.most = 76'000}).time, 2 * 3 * 8 * kMs);
  EXPECT_EQ(countsOf(only(Chooser().choose(fourShards(), {.most = 76'000})), keptBy), (Counts{2, 8, 8, 8}));
}

TEST(PortionPolicies, MostOfNothingIsAuto) {
  RandomGroups random(5);
  for (int i = 0; i != 50; ++i) {
    const Group group = random.group(int32_t(random.upTo(2, 4)), 2, 12);
    Chooser chooser;
    const Chosen chosen = chooser.choose(group, {.most = 0}), few = chooser.choose(group, {.most = 300'000});
    EXPECT_EQ(chosen.portions, chooser.choose(group, {}).portions);
    for (size_t run = 0; run != few.portions[0].size(); ++run)
      for (size_t split = 0; split != few.portions[0][run].size(); ++split) {
        const int64_t units = group.stages[0].runs[run].layer.splits[split].units;
        int64_t kept = 0, owned = 0;
        for (const Portion &each : few.portions[0][run][split]) {
          EXPECT_LE(each.kept, unitsOf(each.owned));
          EXPECT_EQ(each.owned, each.worked);
          kept += each.kept;
          owned += unitsOf(each.owned);
        }
        EXPECT_EQ(owned, units);
        EXPECT_GE(kept * 10, units * 7);
      }
  }
}

TEST(PortionPolicies, MigrateMovesWorkButNoOwners) {
  Group group = fourShards();
  const Chosen moved = Chooser().choose(group, {.policy = Policy::Migrate});
  EXPECT_EQ(countsOf(only(moved), ownedBy), (Counts{7, 7, 6, 6}));
  EXPECT_EQ(countsOf(only(moved), workedBy), (Counts{2, 8, 8, 8}));
  EXPECT_EQ(only(moved)[0].worked, (Ranges{{0, 2}}));
  EXPECT_EQ(only(moved)[1].worked, (Ranges{{2, 1}, {7, 7}}));
  EXPECT_EQ(only(moved)[3].worked, (Ranges{{5, 2}, {20, 6}}));
  EXPECT_EQ(moved.time, 2 * 3 * 8 * kMs);
  EXPECT_EQ(moved.lower, moved.time);
  // Where exchanges take longer than they save, nothing moves.
  group.link.latency = 61 * kMs;
  const Chosen stays = Chooser().choose(group, {.policy = Policy::Migrate});
  EXPECT_EQ(stays.portions, evenPortions(group));
  EXPECT_EQ(stays.lower, stays.time);
  // A unit that moves saves 24 ms; on the wire, in two layers and there and back, it takes 22 or 26.
  group.link = {.latency = 0, .bandwidth = 1'000'000'000};
  Split &split = group.stages[0].runs[0].layer.splits[0];
  split.set(Figure::Gradients, 26 * 5'500'000);
  const Chosen pays = Chooser().choose(group, {.policy = Policy::Migrate});
  EXPECT_EQ(countsOf(only(pays), workedBy), (Counts{2, 8, 8, 8}));
  EXPECT_EQ(pays.time, 48 * kMs + 5 * 22 * kMs);
  EXPECT_EQ(pays.lower, pays.time);
  split.set(Figure::Gradients, 26 * 6'500'000);
  EXPECT_EQ(Chooser().choose(group, {.policy = Policy::Migrate}).portions, evenPortions(group));
}

TEST(PortionPolicies, ResizeLeavesOut) {
  Group group = fourShards();
  Chooser chooser;
  // 7 units at 4 take 28; the least is 6.
  EXPECT_EQ(countsOf(only(chooser.choose(group, {.policy = Policy::Resize})), keptBy), (Counts{2, 6, 6, 6}));
  // The mean is 47 / 4 = 11.75.
  EXPECT_EQ(countsOf(only(chooser.choose(group, {.policy = Policy::Resize, .reference = Reference::Mean})), keptBy),
            (Counts{3, 7, 6, 6}));
  const Chosen given = chooser.choose(group, {.policy = Policy::Resize, .gamma = 500'000});
  EXPECT_EQ(countsOf(only(given), keptBy), (Counts{4, 7, 6, 6}));
  EXPECT_EQ(countsOf(only(given), workedBy), (Counts{7, 7, 6, 6}));
  EXPECT_EQ(given.time, 2 * 3 * 16 * kMs);
  // Own work cannot be left out, so more of the splits is: 40 + 28 less 10 + 6 of 28 is more than all.
  group.stages[0].runs[0].layer.own.set(Figure::Forward, 10 * kMs);
  group.stages[0].runs[0].layer.own.set(Figure::Backward, 20 * kMs);
  EXPECT_EQ(countsOf(only(chooser.choose(group, {.policy = Policy::Resize})), keptBy), (Counts{1, 6, 6, 6}));
}

TEST(PortionPolicies, SemiKeepsAPartOfWhatMoves) {
  // Migrate moves five: one to the second shard, two each to the third and fourth. 2.5 stay, rounded up.
  const Chosen semi = Chooser().choose(fourShards(), {.policy = Policy::Semi});
  EXPECT_EQ(countsOf(only(semi), ownedBy), (Counts{7, 7, 6, 6}));
  EXPECT_EQ(countsOf(only(semi), workedBy), (Counts{5, 7, 7, 7}));
  EXPECT_EQ(countsOf(only(semi), keptBy), (Counts{2, 7, 7, 7}));
  EXPECT_EQ(countsOf(only(Chooser().choose(fourShards(), {.policy = Policy::Semi, .part = 0})), workedBy),
            (Counts{2, 8, 8, 8}));
  EXPECT_EQ(countsOf(only(Chooser().choose(fourShards(), {.policy = Policy::Semi, .part = 1'000'000})), keptBy),
            (Counts{2, 7, 6, 6}));
}

TEST(PortionPolicies, SayWhatMemoryWouldDo) {
  Group group = fourShards();
  Split &split = group.stages[0].runs[0].layer.splits[0];
  split.set(Figure::Weights, 26 * 10);
  group.staticBytes = {0, 100, 0, 0};
  group.workspace = 5;
  group.memoryLimit = 146; // 7 units on all but the second, which holds 100 already; all four need 26 * 20 in all
  Chosen chosen = Chooser().choose(group, {});
  ASSERT_TRUE(chosen.shortage);
  EXPECT_EQ(chosen.shortage->least, 165); // 8, 3, 8, 7
  group.memoryLimit = chosen.shortage->least;
  chosen = Chooser().choose(group, {});
  EXPECT_FALSE(chosen.shortage);
  const std::vector<Bytes> needs = needsOf(group, chosen.portions);
  EXPECT_LE(*std::max_element(needs.begin(), needs.end()), 165);
  EXPECT_EQ(chosen.lower, chosen.time);
  EXPECT_GT(chosen.time, Chooser().choose(fourShards(), {}).time);
  chosen = Chooser().choose(group, {.policy = Policy::Even});
  ASSERT_TRUE(chosen.shortage);
  EXPECT_EQ(chosen.shortage->shard, 1);
  EXPECT_EQ(chosen.shortage->least, 5 + 100 + 7 * 20);
}

TEST(PortionPolicies, LayersAreAskedForOnce) {
  const Group group = fourShards();
  Chooser chooser;
  const Layer &layer = group.stages[0].runs[0].layer;
  for (int i = 0; i != 100'000; ++i)
    ASSERT_EQ(chooser.layerTime(group, layer, false), 3 * 8 * kMs);
  EXPECT_EQ(chooser.layerTime(group, layer, true), 4 * 8 * kMs);
}

/// A ViT of the paper on eight V100s at 85 % of their peak. An layer's splits: 16 heads (qkv, attention, output) and
/// the MLP's columns.
Group visionTransformer(int64_t hidden, int64_t batch) {
  constexpr int64_t kSequence = 65, kDepth = 24;
  const auto time = [](int64_t flops) { return Time(std::llround(double(flops) / (0.85 * 15.7))); };
  const int64_t tokens = batch * kSequence;
  Split heads;
  heads.units = 16;
  heads.set(Figure::Forward, time(2 * tokens * hidden * 4 * hidden + 4 * tokens * kSequence * hidden));
  heads.set(Figure::Backward, 2 * heads[Figure::Forward]);
  heads.sum = tokens * hidden * 4;
  Split columns = heads;
  columns.units = 4 * hidden;
  columns.set(Figure::Forward, time(2 * tokens * hidden * 8 * hidden));
  columns.set(Figure::Backward, 2 * columns[Figure::Forward]);
  Group group;
  group.factors.assign(8, kNoSlower);
  group.link = {.latency = 20'000'000, .bandwidth = 100'000'000'000};
  group.stages = {{.runs = {{{{}, {heads, columns}}, kDepth}}}};
  return group;
}

struct GridRow {
  std::vector<int64_t> slow; // factors of the first shards
  double autoWins, mostWins; // per cent at least
};

TEST(PortionPolicies, WinBackWhatThePaperLoses) {
  const GridRow rows[] = {{{2}, 77, 99}, {{4}, 91, 99}, {{6}, 94, 99}, {{8}, 96, 99}, {{8, 6, 4, 2}, 88, 0}};
  for (const auto &[hidden, batch] : {std::pair(2048, 64), std::pair(3072, 32)})
    for (const GridRow &row : rows) {
      Group group = visionTransformer(hidden, batch);
      const Time healthy = stepOf(group, evenPortions(group));
      for (size_t shard = 0; shard != row.slow.size(); ++shard)
        group.factors[shard] = row.slow[shard] * kNoSlower;
      const Time even = stepOf(group, evenPortions(group));
      Chooser chooser;
      const auto wins = [&](const Chosen &chosen) {
        return 100.0 * double(even - chosen.time) / double(even - healthy);
      };
      const Chosen best = chooser.choose(group, {}), most = chooser.choose(group, {.most = 125'000});
      std::printf("hidden %d, slowest x %d: even %.1f ms, healthy %.1f, auto wins back %.2f %%, most 0.125 %.2f %%\n",
                  hidden, int(row.slow[0]), double(even) / kMs, double(healthy) / kMs, wins(best), wins(most));
      EXPECT_EQ(best.lower, best.time);
      EXPECT_GE(wins(best), row.autoWins);
      EXPECT_GE(wins(most), row.mostWins);
      // The slow shard goes round, and nothing changes.
      std::rotate(group.factors.begin(), group.factors.begin() + 3, group.factors.end());
      EXPECT_EQ(chooser.choose(group, {}).time, best.time);
    }
}

TEST(PortionPolicies, ManyUnitsAreChosenToTheLast) {
  RandomGroups random(9);
  for (const int64_t layers : {1, 24}) {
    Group group;
    for (int shard = 0; shard != 64; ++shard)
      group.factors.push_back(random.upTo(kNoSlower, 8 * kNoSlower));
    Split split;
    split.units = int64_t(1) << 20;
    split.set(Figure::Forward, random.upTo(20'000, 80'000) * 1'000'003);
    split.set(Figure::Backward, 2 * split[Figure::Forward] + 12'345);
    Layer layer{{}, {split}};
    layer.own.set(Figure::Forward, random.upTo(100'000'000, 1'000'000'000));
    layer.own.set(Figure::Backward, random.upTo(100'000'000, 1'000'000'000));
    group.stages = {{.runs = {{layer, layers}}}};
    const auto before = std::chrono::steady_clock::now();
    const Chosen chosen = Chooser().choose(group, {});
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - before;
    std::printf("2^20 units of %lld layers on 64 shards: %.1f ms\n", static_cast<long long>(layers), took.count());
    EXPECT_LE(double(chosen.time - chosen.lower), 1e-6 * double(chosen.lower));
  }
}

TEST(PortionPolicies, StayWithinTheLimits) {
  Group group = fourShards();
  group.factors = {kMostFactor, kNoSlower, kMostFactor, 1};
  group.microbatches = pipec::limits::kMicrobatches;
  group.memoryLimit = pipec::limits::kBytes;
  group.link = {pipec::limits::kTime, 1};
  LayerRun &run = group.stages[0].runs[0];
  run.count = pipec::limits::kLayers;
  group.stages[0].inFlight = pipec::limits::kMicrobatches;
  for (Work *work : {&run.layer.own, static_cast<Work *>(&run.layer.splits[0])}) {
    work->set(Figure::Forward, pipec::limits::kTime);
    work->set(Figure::Backward, pipec::limits::kTime);
    work->set(Figure::Optimizer, pipec::limits::kTime);
    for (const Figure size : {Figure::Weights, Figure::Gradients, Figure::Activation})
      work->set(size, pipec::limits::kBytes);
  }
  run.layer.splits[0].units = kMostUnits;
  run.layer.splits[0].sum = pipec::limits::kBytes;
  for (const Policy policy : {Policy::Even, Policy::Auto, Policy::Migrate, Policy::Resize, Policy::Semi}) {
    const Chosen chosen = Chooser().choose(group, {.policy = policy, .most = 125'000});
    EXPECT_EQ(chosen.time, kMostTime);
    EXPECT_TRUE(chosen.shortage);
  }
}

} // namespace
