// Rounds and words grown from fewer microbatches: valid and within the capacities for any problem; long steps are near
// what no schedule can pass.
#include "compiler/schedule/construct/Rounds.h"

#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/construct/Weave.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/improve/Grow.h"
#include "compiler/schedule/search/Search.h"
#include "test/bench/Grid.h"
#include "test/schedule/Support.h"

#include <gtest/gtest.h>
#include <limits>

namespace pipec::schedule::test {
namespace {

void expectRight(const Problem &problem, const Words &words, const Capacities &capacities) {
  EXPECT_EQ(verify(problem, words), "");
  for (size_t r = 0; r < words.size(); ++r)
    EXPECT_LE(peakOf(problem, words[r]), capacities[r]) << "rank " << r;
}

TEST(Rounds, WordsAreValidAndWithinTheCapacitiesOfAnyProblem) {
  Random random(11);
  int made = 0;
  for (int i = 0; i < 300; ++i) {
    const Problem problem = chunkedProblem(random, 40, 30);
    ASSERT_EQ(check(problem), "");
    const Capacities capacities = capacitiesOf(problem, 0);
    for (const RoundOptions options : {RoundOptions{16, 0}, {3, 100}, {32, 50}})
      if (const std::optional<Words> words = rounds(problem, capacities, options)) {
        ++made;
        expectRight(problem, *words, capacities);
        EXPECT_EQ(words, rounds(problem, capacities, options)) << i;
      }
  }
  EXPECT_GT(made, 300);
}

/// What one interval cannot do: 13 microbatches in the time of 40 that pass each other, as many as memory holds.
TEST(Rounds, HoldAsManyMicrobatchesAsFitOnTheAverage) {
  struct Case {
    grid::Row row;
    RoundOptions options;
    double over; // hundredths of the bound
  };
  for (const Case &each : {Case{{64, 512, 32, 18522, 18086, 9336, 601, "loop", true}, {16, 0}, 9},
                           {{64, 512, 32, 2000, 3000, 1000, 100, "v", false}, {32, 100}, 13},
                           {{64, 1024, 30, 10000, 10000, 8000, 1362, "v", true}, {16, 100}, 10},
                           {{16, 128, 8, 2000, 3000, 3000, 0, "one", true}, {16, 0}, 0.5}}) {
    const Problem problem = grid::problemOf(each.row);
    const Capacities capacities = capacitiesOf(problem, 0);
    const std::optional<Words> words = rounds(problem, capacities, each.options);
    ASSERT_TRUE(words) << each.row.csv();
    expectRight(problem, *words, capacities);
    const Bounded bounded = lowerBounds(problem);
    const Time time = timeOf(problem, *words, each.row.span ? Objective::Span : Objective::Makespan);
    EXPECT_LE(double(time), double(each.row.span ? bounded.span : bounded.makespan) * (1 + each.over / 100))
        << each.row.csv();
  }
}

/// Where W takes as long as B, all of it does not fit beside what passes each other, and none leaves gaps of no use:
/// the search is no worse than with room for half.
TEST(Rounds, SearchTriesRoomForHalfOfAW) {
  const Problem problem = grid::problemOf({16, 64, 8, 2000, 3000, 3000, 0, "loop", false});
  const Capacities capacities = capacitiesOf(problem, 0);
  const auto timeWith = [&](int32_t room) {
    const std::optional<Words> words = rounds(problem, capacities, {.room = room});
    return words ? timeOf(problem, *words, Objective::Makespan) : std::numeric_limits<Time>::max();
  };
  EXPECT_LT(timeWith(50), timeWith(0));
  EXPECT_LT(timeWith(50), timeWith(100));
  const std::optional<Solution> solution = solve(problem, {Objective::Makespan});
  ASSERT_TRUE(solution);
  EXPECT_LE(solution->time, timeWith(50));
}

TEST(Rounds, AreForOneCopyUnderALimitInTimesThatFit) {
  Problem problem = grid::problemOf({4, 32, 4, 1000, 1000, 1000, 0, "v", false});
  EXPECT_TRUE(rounds(problem, capacitiesOf(problem, 0), {}));
  EXPECT_FALSE(rounds(problem, {}, {}));
  for (Stage &stage : problem.stages)
    stage.forward = 400'000'000'000'000'000;
  EXPECT_FALSE(rounds(problem, capacitiesOf(problem, 0), {})) << "times would not be numbers";
}

TEST(Grow, WordsAreValidAndHoldNoMoreThanBefore) {
  Random random(5);
  int made = 0;
  for (int i = 0; i < 200; ++i) {
    Problem few = chunkedProblem(random, 24, 30);
    const Capacities capacities = capacitiesOf(few, 0);
    std::optional<Words> words = listSchedule(few, capacities, {});
    if (!words)
      continue;
    const Period period = periodOf(few, *words, Objective::Makespan);
    EXPECT_GE(period.each, 0);
    if (period.microbatches == 0)
      continue;
    ++made;
    Capacities peaks;
    for (const Word &word : *words)
      peaks.push_back(peakOf(few, word));
    Problem problem = few;
    for (const int32_t more : {1, 2, 7, 50}) {
      problem.microbatches = few.microbatches + more;
      expectRight(problem, grown(problem, few, *words, period), peaks);
    }
  }
  EXPECT_GT(made, 100);
}

/// Where a step's middle repeats microbatch by microbatch, growing is exact: 1F1B of more microbatches is 1F1B.
TEST(Grow, IsExactWhereTheMiddleRepeats) {
  for (const int32_t p : {2, 3, 5, 8}) {
    const Problem few = uniform(p, 3 * p, 18, 17, 10), problem = uniform(p, 20 * p + 1, 18, 17, 10);
    const Words words = wordsOf("1f1b", few);
    const Period period = periodOf(few, words, Objective::Makespan);
    ASSERT_GE(period.microbatches, 1);
    EXPECT_EQ(evaluate(problem, grown(problem, few, words, period)).makespan,
              evaluate(problem, wordsOf("1f1b", problem)).makespan);
    EXPECT_DOUBLE_EQ(period.timeWith(problem.microbatches - few.microbatches),
                     double(evaluate(problem, wordsOf("1f1b", problem)).makespan));
  }
}

/// What is woven goes on as it did: a fourth of the microbatches tell what all take.
TEST(Grow, TellsWhatManyMicrobatchesTake) {
  Problem problem = grid::problemOf({16, 256, 7, 10000, 10000, 8000, 1362, "v", false}), few = problem;
  few.microbatches = 64;
  const Capacities capacities = capacitiesOf(problem, 0);
  const WeaveOptions way = {.pace = 25, .equal = true, .fromEnd = true, .pitch = 100};
  const std::optional<Words> words = weave(few, capacities, way), all = weave(problem, capacities, way);
  ASSERT_TRUE(words && all);
  const Period period = periodOf(few, *words, Objective::Makespan);
  ASSERT_GT(period.microbatches, 0);
  const Time time = timeOf(problem, grown(problem, few, *words, period), Objective::Makespan);
  const Time direct = timeOf(problem, *all, Objective::Makespan);
  EXPECT_LE(double(time), 1.02 * double(direct));
  EXPECT_NEAR(period.timeWith(problem.microbatches - few.microbatches), double(time), 0.02 * double(time));
}

/// In a step of 2p microbatches the list schedule is never steady: its middle says that many would take longer.
TEST(Grow, WhatIsBestOfFewIsTriedWithAll) {
  const std::optional<Solution> solution =
      solve(grid::problemOf({32, 256, 24, 1000, 1000, 1000, 0, "one", false}), {Objective::Makespan});
  ASSERT_TRUE(solution);
  EXPECT_EQ(solution->time, solution->bound);
}

} // namespace
} // namespace pipec::schedule::test
