// Choices of random groups against all that there are.
#include "compiler/portions/Choose.h"
#include "compiler/portions/Held.h"
#include "compiler/portions/Timing.h"
#include "test/Rounds.h"
#include "test/portions/RandomGroups.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace pipec::portions;

namespace {

std::vector<int64_t> unitsOfSplits(const Group &group) {
  std::vector<int64_t> units;
  eachSplit(group, [&](size_t, size_t, size_t, const Split &split) {
    units.push_back(split.units);
    return SplitPortions();
  });
  return units;
}

struct Best {
  Time time = kMostTime, free = kMostTime; // in memory; in any
  Bytes least = INT64_MAX;                 // memory that some portions need
};

using MakePortions = SplitPortions (*)(const std::vector<int64_t> &);
SplitPortions whereOwned(const std::vector<int64_t> &counts) { return ownedPortions(counts, counts); }

Best bestOf(const Group &group, MakePortions make, std::vector<int64_t> kept = {}) {
  Best best;
  const std::vector<int64_t> units = unitsOfSplits(group);
  allCounts(kept.empty() ? units : kept, group.shards(), [&](const std::vector<std::vector<int64_t>> &counts) {
    size_t next = 0;
    const Portions portions = eachSplit(group, [&](size_t, size_t, size_t, const Split &) {
      const std::vector<int64_t> &own = counts[next++];
      return kept.empty() ? make(own) : ownedPortions(inProportion(units[next - 1], own), own);
    });
    const Time time = stepOf(group, portions);
    const std::vector<Bytes> needs = needsOf(group, portions);
    const Bytes need = *std::max_element(needs.begin(), needs.end());
    best.free = std::min(best.free, time);
    best.least = std::min(best.least, need);
    if (group.memoryLimit == 0 || need <= group.memoryLimit)
      best.time = std::min(best.time, time);
  });
  return best;
}

/// A limit between what the least needs and what the fastest do, or a little below all.
void limitMemory(Group &group, RandomGroups &random, MakePortions make) {
  const Bytes least = bestOf(group, make).least;
  group.memoryLimit = std::max<Bytes>(1, least + random.upTo(-least / 10, least / 2));
}

Group randomGroup(RandomGroups &random, const int64_t most[2][3]) {
  const int32_t shards = int32_t(random.upTo(2, 4));
  const int splits = int(random.upTo(1, 2));
  return random.group(shards, splits, most[splits - 1][shards - 2]);
}

/// Counts what fits, and what of it is proven.
struct Counted {
  int fit = 0, exact = 0;
};

void compare(const Group &group, const Best &best, const Chosen &chosen, Counted &counted) {
  const std::vector<Bytes> needs = needsOf(group, chosen.portions);
  const Bytes need = *std::max_element(needs.begin(), needs.end());
  EXPECT_EQ(chosen.time, stepOf(group, chosen.portions));
  if (best.time == kMostTime) {
    ASSERT_TRUE(chosen.shortage);
    EXPECT_EQ(chosen.shortage->least, best.least);
    EXPECT_EQ(needs[size_t(chosen.shortage->shard)], best.least);
    return;
  }
  ASSERT_FALSE(chosen.shortage);
  EXPECT_TRUE(group.memoryLimit == 0 || need <= group.memoryLimit);
  EXPECT_EQ(chosen.time, best.time);
  EXPECT_LE(chosen.lower, best.time);
  ++counted.fit;
  counted.exact += chosen.lower == chosen.time ? 1 : 0;
}

int groups(int usual) { return pipec::test::rounds(usual, 10 * usual); }

TEST(BestPortions, AutoIsTheBestOfAll) {
  constexpr int64_t kMost[2][3] = {{24, 24, 24}, {24, 9, 5}};
  RandomGroups random(1);
  Counted counted;
  int fused = 0;
  const int all = groups(2000);
  for (int i = 0; i != all && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    Group group = randomGroup(random, kMost);
    if (random.coin(35))
      limitMemory(group, random, whereOwned);
    compare(group, bestOf(group, whereOwned), Chooser().choose(group, {}), counted);
    fused += group.backward == BackwardMode::Fused ? 1 : 0;
  }
  std::printf("%d groups, %d with fused backwards; %d fit, of which %d are proven to be the best\n", all, fused,
              counted.fit, counted.exact);
  EXPECT_EQ(counted.exact, counted.fit);
}

TEST(BestPortions, MigrateIsTheBestOfAll) {
  constexpr int64_t kMost[2][3] = {{16, 16, 12}, {16, 7, 4}};
  RandomGroups random(2);
  Counted counted;
  const int all = groups(1000);
  for (int i = 0; i != all && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    Group group = randomGroup(random, kMost);
    if (random.coin(35))
      limitMemory(group, random, movedPortions);
    compare(group, bestOf(group, movedPortions), Chooser().choose(group, {.policy = Policy::Migrate}), counted);
  }
  std::printf("%d groups; %d fit, of which %d are proven to be the best\n", all, counted.fit, counted.exact);
  EXPECT_EQ(counted.exact, counted.fit);
}

TEST(BestPortions, StagesShareMemory) {
  constexpr int64_t kMost[3] = {20, 8, 4};
  RandomGroups random(3);
  Counted counted, moved;
  double worst = 0;
  for (int i = 0; i != groups(300) && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const int32_t shards = int32_t(random.upTo(2, 4));
    Group group = RandomGroups::inStages(random.group(shards, 2, kMost[shards - 2]));
    Group limited = group;
    limitMemory(limited, random, whereOwned);
    compare(limited, bestOf(limited, whereOwned), Chooser().choose(limited, {}), counted);
    compare(group, bestOf(group, movedPortions), Chooser().choose(group, {.policy = Policy::Migrate}), moved);
    // With memory the latencies of stages are not known to its search.
    limited.memoryLimit = 0;
    limitMemory(limited, random, movedPortions);
    const Best best = bestOf(limited, movedPortions);
    const Chosen chosen = Chooser().choose(limited, {.policy = Policy::Migrate});
    ASSERT_EQ(chosen.shortage.has_value(), best.time == kMostTime);
    if (!chosen.shortage) {
      EXPECT_LE(chosen.lower, best.time);
      worst = std::max(worst, double(chosen.time) / double(best.time) - 1);
    }
  }
  std::printf("auto in memory: %d of %d proven; migrate: %d of %d, in memory at most %.2g above the best\n",
              counted.exact, counted.fit, moved.exact, moved.fit, worst);
  EXPECT_LE(worst, 0.02);
}

TEST(BestPortions, OfAsManyUnits) {
  constexpr int64_t kMost[2][3] = {{20, 20, 12}, {16, 8, 4}};
  RandomGroups random(4);
  int exact = 0;
  const int all = groups(400);
  for (int i = 0; i != all && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    Group group = randomGroup(random, kMost);
    const bool updates = random.coin(50);
    for (LayerRun &run : group.stages[0].runs)
      for (Split &split : run.layer.splits)
        split.set(Figure::Optimizer, updates ? split[Figure::Optimizer] : 0);
    const Chosen chosen = Chooser().choose(group, {.most = random.upTo(1, 600'000)});
    std::vector<int64_t> kept;
    for (const std::vector<SplitPortions> &run : chosen.portions[0])
      for (const SplitPortions &split : run) {
        kept.push_back(0);
        for (const Portion &each : split)
          kept.back() += each.kept;
      }
    const Best best = bestOf(group, whereOwned, kept);
    EXPECT_LE(chosen.lower, best.time);
    EXPECT_EQ(chosen.time, updates ? std::max(chosen.time, best.time) : best.time);
    exact += chosen.lower == chosen.time ? 1 : 0;
  }
  std::printf("proven to be the best of as many units: %d of %d\n", exact, all);
}

} // namespace
