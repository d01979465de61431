// Cuts against brute force over all of them.
#include "compiler/schedule/cut/CutSearch.h"
#include "compiler/schedule/model/Random.h"
#include "test/schedule/cut/AllCuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace pipec::schedule {
namespace {

std::vector<Cut> cutsOf(const CutWork &work) {
  return pipec::test::allCuts(int64_t(work.layers.size()), work.stages());
}

Work leastOfAll(const CutWork &work) {
  Work least = -1;
  for (const Cut &each : cutsOf(work)) {
    const Work its = busiest(work, each);
    least = least < 0 ? its : std::min(least, its);
  }
  return least;
}

struct Shape {
  const char *name;
  int32_t ranks;
  std::vector<int32_t> rankOf;
};

const std::vector<Shape> &shapes() {
  static const std::vector<Shape> all = {
      {"one a rank", 4, {0, 1, 2, 3}}, {"one a rank, as listed", 4, {2, 0, 3, 1}},    {"loop", 3, {0, 1, 2, 0, 1, 2}},
      {"v", 3, {0, 1, 2, 2, 1, 0}},    {"there, back, there", 2, {0, 1, 1, 0, 0, 1}}, {"uneven", 2, {0, 1, 1}},
  };
  return all;
}

CutWork randomWork(Random &random, const Shape &shape) {
  CutWork work;
  work.rankOf = shape.rankOf;
  work.perStage = Time(random.below(4)) - 1;
  const size_t layers = shape.rankOf.size() + random.below(6);
  for (size_t i = 0; i != layers; ++i)
    work.layers.push_back(3 + Time(random.below(random.below(4) == 0 ? 60 : 8)));
  return work;
}

TEST(Cut, BalanceIsTheLeastWorkOfTheBusiestRank) {
  Random random(1);
  int reached = 0;
  for (const Shape &shape : shapes())
    for (int round = 0; round != 150; ++round) {
      const CutWork work = randomWork(random, shape);
      const Balance found = balance(work);
      const Work least = leastOfAll(work);
      EXPECT_LE(found.least, least) << shape.name;
      ASSERT_EQ(found.cut.size(), work.stages());
      EXPECT_EQ(std::accumulate(found.cut.begin(), found.cut.end(), int64_t(0)), int64_t(work.layers.size()));
      EXPECT_GE(*std::min_element(found.cut.begin(), found.cut.end()), 1);
      reached += found.least == least;
      if (shape.rankOf.size() == size_t(shape.ranks)) {
        EXPECT_EQ(found.least, least) << shape.name;
        EXPECT_EQ(busiest(work, found.cut), least) << shape.name;
      }
    }
  EXPECT_GT(reached, 400) << "of 900, 300 of them with one stage a rank";
}

TEST(Cut, SharesHaveAllLayers) {
  Random random(2);
  for (const Shape &shape : shapes())
    for (int round = 0; round != 50; ++round) {
      const CutWork work = randomWork(random, shape);
      for (const Cut &each : {sharedCut(work)}) {
        ASSERT_EQ(each.size(), work.stages());
        EXPECT_EQ(std::accumulate(each.begin(), each.end(), int64_t(0)), int64_t(work.layers.size()));
        EXPECT_GE(*std::min_element(each.begin(), each.end()), 1);
      }
    }
  EXPECT_EQ(sharedCut({.layers = {1, 1, 1, 9, 1, 1}, .rankOf = {0, 1, 2}}), (Cut{3, 1, 2}));
}

/// Where ranks take more or less than their work says, slow ones get less of it, and no cut is below the bound.
TEST(Cut, SlowRanksGetLess) {
  Random random(6);
  for (const Shape &shape : shapes())
    for (int round = 0; round != 30; ++round) {
      CutWork work = randomWork(random, shape);
      const int32_t ranks = *std::max_element(work.rankOf.begin(), work.rankOf.end()) + 1;
      for (int32_t rank = 0; rank != ranks; ++rank)
        work.percent.push_back(50 + int64_t(random.below(150)));
      EXPECT_LE(balance(work).least, leastOfAll(work));
      CutSearch search(work, {}, [&](const Cut &each) { return TrialCost{0, Time(busiest(work, each)), 0}; }, 10);
      search.run();
      EXPECT_EQ(Work(search.judged().begin()->first.time), leastOfAll(work));
    }
  EXPECT_EQ(sharedCut({.layers = Cut(30, 1), .rankOf = {0, 1, 2}, .percent = {100, 200, 100}}), (Cut{12, 6, 12}));
  EXPECT_EQ(busiest({.layers = {3, 3}, .rankOf = {0, 1}, .percent = {100, 150}}, {1, 1}), 4);
}

TEST(Cut, SlowestStageIsTheFastest) {
  Random random(4);
  for (const Shape &shape : shapes())
    for (int round = 0; round != 50; ++round) {
      CutWork work = randomWork(random, shape);
      work.perStage = 0;
      CutWork stages = work;
      std::iota(stages.rankOf.begin(), stages.rankOf.end(), 0);
      const Work least = leastOfAll(stages);
      for (const Cut &each : slowestFastest(work))
        EXPECT_EQ(busiest(stages, each), least);
    }
  EXPECT_EQ(slowestFastest({.layers = {1, 1, 1, 1, 5}, .rankOf = {0, 0, 0}}),
            (std::vector<Cut>{{3, 1, 1}, {2, 2, 1}, {2, 2, 1}, {1, 3, 1}, {3, 1, 1}, {1, 3, 1}}));
}

TEST(Cut, Counts) {
  EXPECT_EQ(countCuts(12, 4, 10'000), 165);
  EXPECT_EQ(countCuts(4, 4, 10'000), 1);
  EXPECT_EQ(countCuts(9, 1, 10'000), 1);
  EXPECT_EQ(countCuts(96, 16, 10'000), 10'001);
  EXPECT_EQ(countCuts(1'000, 999, 10'000), 999);
  EXPECT_EQ(countCuts(11, 5, 10'000), int64_t(pipec::test::allCuts(11, 5).size()));
}

/// A judge with a will of its own, but never under the busiest rank's work.
TrialCost whim(const CutWork &work, const Cut &cut, uint64_t seed) {
  for (const int64_t each : cut)
    seed = seed * 6364136223846793005u + uint64_t(each);
  return {seed % 5 == 0 ? 7 : 0, Time(busiest(work, cut) + Work(seed >> 60)), Time(seed >> 40)};
}

TEST(Cut, FindsTheBestOfAllWhereThereAreFew) {
  Random random(3);
  for (const Shape &shape : shapes())
    for (uint64_t round = 0; round != 30; ++round) {
      const CutWork work = randomWork(random, shape);
      CutSearch search(work, {}, [&](const Cut &each) { return whim(work, each, round); }, 10);
      EXPECT_TRUE(search.looksAtAll());
      search.run();
      TrialCost least{1'000, 0, 0};
      std::optional<Time> bound;
      for (const Cut &each : cutsOf(work)) {
        least = std::min(least, whim(work, each, round));
        if (const TrialCost its = whim(work, each, round); its.excess == 0)
          bound = std::min(bound.value_or(its.time), its.time);
      }
      EXPECT_EQ(search.judged().begin()->first, least);
      if (bound) {
        EXPECT_EQ(search.bound([&](const Cut &each) {
          const TrialCost its = whim(work, each, round);
          return its.excess == 0 ? std::optional(plan::LeastTime::proven(its.time)) : std::nullopt;
        }),
                  plan::LeastTime::proven(*bound));
      }
    }
}

TEST(Cut, ALaterHorizonLooksFurther) {
  const CutWork work{.layers = {5, 4, 3, 2, 9, 1, 1, 4}, .rankOf = {0, 1, 2}};
  CutSearch search(work, {}, [&](const Cut &each) { return TrialCost{0, Time(busiest(work, each)), 0}; }, 10);
  search.run();
  const size_t first = search.judged().size();
  search.run(1'000);
  EXPECT_LT(first, search.judged().size());
  EXPECT_EQ(int64_t(search.judged().size()), countCuts(8, 3, 1'000));
}

TEST(Cut, ImprovesOnTheUsualOnesWhereThereAreMany) {
  CutWork work;
  for (int i = 0; i != 64; ++i)
    work.layers.push_back(10 + i % 7);
  work.layers.front() = 40;
  work.layers.back() = 70;
  for (int32_t s = 0; s != 16; ++s)
    work.rankOf.push_back(s < 8 ? s : 15 - s);
  // What work does not see: the later ranks are slower.
  const auto judge = [&](const Cut &cut) {
    Work most = 0;
    size_t layer = 0;
    std::vector<Work> ofRank(8);
    for (size_t s = 0; s != cut.size(); ++s)
      for (int64_t i = 0; i != cut[s]; ++i)
        ofRank[size_t(work.rankOf[s])] += work.layers[layer++] * (8 + work.rankOf[s]);
    for (const Work each : ofRank)
      most = std::max(most, each);
    return std::optional(TrialCost{0, Time(most), 0});
  };
  CutSearch search(work, {}, judge, 2'000);
  EXPECT_FALSE(search.looksAtAll());
  search.run();
  EXPECT_LE(search.judged().size(), 2'000u);
  for (const Cut &each : search.usual())
    EXPECT_LT(search.judged().begin()->first.time, judge(each)->time);
  EXPECT_LE(search.bound({}).picoseconds(), busiest(work, search.judged().begin()->second));
}

} // namespace
} // namespace pipec::schedule
