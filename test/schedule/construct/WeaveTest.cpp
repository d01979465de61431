// Woven words: valid and within the capacities for any problem, and near what no schedule can pass where a block of one
// interval is not.
#include "compiler/schedule/construct/Weave.h"

#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/improve/LocalSearch.h"
#include "compiler/schedule/search/Search.h"
#include "test/bench/Grid.h"
#include "test/schedule/Support.h"

#include <gtest/gtest.h>
#include <random>

namespace pipec::schedule::test {
namespace {

bool isWithin(const Problem &problem, const Words &words, const Capacities &capacities) {
  for (size_t r = 0; r < words.size(); ++r)
    if (peakOf(problem, words[r]) > capacities[r])
      return false;
  return true;
}

/// Over the bound for the makespan, in hundredths of it.
double overBound(const grid::Row &row, const WeaveOptions &options) {
  const Problem problem = grid::problemOf(row);
  const std::optional<Words> words = weave(problem, capacitiesOf(problem, 0), options);
  return words
             ? 100 * double(timeOf(problem, *words, Objective::Makespan)) / double(lowerBounds(problem).makespan) - 100
             : 100;
}

TEST(Weave, WordsAreValidAndWithinTheCapacitiesOfAnyProblem) {
  std::mt19937 random(7);
  const auto draw = [&](int64_t least, int64_t most) { return least + int64_t(random() % uint64_t(most - least + 1)); };
  int made = 0;
  for (int i = 0; i < 60; ++i) {
    const Problem problem = chunkedProblem(random, 14, 10);
    ASSERT_EQ(check(problem), "");
    const Capacities capacities = capacitiesOf(problem, 0);
    for (const int32_t pace : {0, 60, 100})
      for (const bool room : {false, true})
        for (const bool equal : {false, true}) {
          const std::optional<Words> words = weave(problem, capacities, {pace, room, equal, draw(0, 1) == 0});
          ASSERT_TRUE(words || problem.memoryLimit < leastLimit(problem));
          if (!words)
            continue;
          ++made;
          EXPECT_EQ(verify(problem, *words), "") << i;
          EXPECT_TRUE(isWithin(problem, *words, capacities)) << i;
        }
  }
  EXPECT_GT(made, 400);
}

/// Passes of no time among passes of milliseconds: starts a picosecond apart, but no try for each of them.
TEST(Weave, EndsWhereSomePassesTakeNoTime) {
  std::mt19937 random(8);
  const auto draw = [&](int64_t least, int64_t most) { return least + int64_t(random() % uint64_t(most - least + 1)); };
  const auto time = [&] { return draw(0, 2) == 0 ? 0 : draw(100, 2'000) * 1'000'000; };
  int made = 0;
  for (int i = 0; i < 300; ++i) {
    Problem problem;
    problem.ranks = int32_t(draw(2, 5));
    problem.microbatches = int32_t(draw(2, 7));
    problem.backward = BackwardMode::Split;
    const auto count = int32_t(problem.ranks * draw(2, 3));
    problem.rankOf = placed(problem.ranks, count, draw(0, 1) == 0);
    for (int32_t s = 0; s < count; ++s)
      problem.stages.push_back({.forward = time(),
                                .backwardInput = time(),
                                .backwardWeight = time(),
                                .activation = draw(0, 4) * 1024,
                                .context = 256});
    problem.links[{1, 0}].latency = time();
    problem.memoryLimit = std::max<Bytes>(leastLimit(problem) + draw(0, 3 * 1024), 1);
    ASSERT_EQ(check(problem), "");
    const Capacities capacities = capacitiesOf(problem, 0);
    for (const bool fromEnd : {false, true}) {
      const std::optional<Words> words = weave(problem, capacities, {.pace = 25, .fromEnd = fromEnd});
      if (!words)
        continue;
      ++made;
      EXPECT_EQ(verify(problem, *words), "") << i;
      EXPECT_TRUE(isWithin(problem, *words, capacities)) << i;
    }
  }
  EXPECT_GT(made, 500);
}

TEST(Weave, IsForOneCopyUnderALimitInTimesThatFit) {
  Problem problem = grid::problemOf({4, 8, 2, 1000, 1000, 1000, 0, "v", false});
  EXPECT_TRUE(weave(problem, capacitiesOf(problem, 0), {}));
  EXPECT_FALSE(weave(problem, {}, {}));
  Problem longer = problem;
  for (Stage &stage : longer.stages)
    stage.forward = 400'000'000'000'000'000;
  EXPECT_FALSE(weave(longer, capacitiesOf(longer, 0), {})) << "times would not be numbers";
  problem.slices = 2, problem.backwardGroup = 2;
  EXPECT_FALSE(weave(problem, capacitiesOf(problem, 0), {}));
}

// Spacings of 8 and 10 slots in turn: any one of them would do no better than 10.
TEST(Weave, PassesOfOneLengthInTwoChunksThereAndBackReachTheBound) {
  EXPECT_EQ(overBound({16, 64, 4, 1000, 1000, 1000, 0, "v", false}, {60, false, false}), 0);
}

TEST(Weave, BackwardsAndForwardsPassEachOtherInALoop) {
  EXPECT_LT(overBound({32, 96, 8, 10000, 11000, 8000, 1000, "loop", false}, {25, false, false}), 6);
}

// Slots as long as the longest of a forward with a W and a backward, four a microbatch.
TEST(Weave, UnequalPassesKeepInStepWhereTheyAreLaidEqual) {
  const grid::Row row{16, 128, 8, 18522, 18086, 9336, 601, "v", false};
  EXPECT_LT(overBound(row, {80, true, true}), 9);
  EXPECT_GT(overBound(row, {80, true, false}), 15);
}

} // namespace
} // namespace pipec::schedule::test
