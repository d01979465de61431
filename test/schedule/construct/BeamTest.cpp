// The beam over the states of all ranks: what it finds fits and is legal; where it leaves nothing out, it is the least
// of all orders.
#include "compiler/schedule/construct/Beam.h"
#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/search/Search.h"
#include "test/Rounds.h"
#include "test/torch/Orders.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

/// Two chunks a rank, each pass a unit, so that a rank's memory holds `cap` microbatches of both.
Problem twoChunks(int32_t p, int32_t m, Bytes cap, bool thereAndBack, Time f = 1, Time b = 1, Time w = 1, Time c = 0) {
  Problem problem = uniform(2 * p, m, f, b, w, c, BackwardMode::Split);
  problem.ranks = p;
  problem.rankOf = placed(p, 2 * p, thereAndBack);
  for (Stage &stage : problem.stages)
    stage.context = 1;
  problem.memoryLimit = 4 * cap;
  return problem;
}

void expectRight(const Problem &problem, const Capacities &capacities, const Words &words) {
  ASSERT_EQ(verify(problem, words), "");
  const Evaluation evaluation = evaluate(problem, words, {.withSpan = false});
  ASSERT_TRUE(evaluation.complete);
  for (size_t r = 0; r < capacities.size(); ++r)
    EXPECT_LE(evaluation.peak[r], capacities[r]);
}

TEST(Beam, ReachesWhatListsAndBlocksDoNot) {
  struct Known {
    int32_t p, m;
    Bytes cap;
    bool thereAndBack;
    Time f, b, w, makespan;
  };
  for (const Known &known : {Known{4, 8, 2, false, 1, 1, 1, 63},
                             {4, 16, 2, false, 1, 1, 1, 119},
                             {4, 12, 2, false, 1, 1, 1, 91},
                             {8, 16, 2, true, 2, 3, 3, 478}}) {
    const Problem problem = twoChunks(known.p, known.m, known.cap, known.thereAndBack, known.f, known.b, known.w);
    const BeamResult found = beam(problem, capacitiesOf(problem), {.objective = Objective::Makespan, .width = 100});
    ASSERT_TRUE(found.words);
    expectRight(problem, capacitiesOf(problem), *found.words);
    EXPECT_LE(timeOf(problem, *found.words, Objective::Makespan), known.makespan);
  }
}

TEST(Beam, WordsFitAnyProblem) {
  Random random(41);
  int looked = 0;
  for (int n = 0; n < 300; ++n) {
    Problem problem = randomProblem(random, 4, 8, 9);
    if (n % 3 != 0)
      problem.memoryLimit = std::max<Bytes>(leastLimit(problem) + pick(random, 0, 30), 1);
    if (!canBeam(problem))
      continue;
    ++looked;
    const Capacities capacities = capacitiesOf(problem, 1);
    const BeamOptions options{.objective = n % 2 ? Objective::Span : Objective::Makespan, .width = 5};
    const BeamResult found = beam(problem, capacities, options), again = beam(problem, capacities, options);
    ASSERT_TRUE(found.words) << n;
    expectRight(problem, capacities, *found.words);
    EXPECT_EQ(found.words, again.words);
    EXPECT_EQ(found.letters, again.letters);
    const Time time = timeOf(problem, *found.words, options.objective);
    const BeamResult better = beam(problem, capacities, {options.objective, time, options.width});
    EXPECT_TRUE(!better.words || timeOf(problem, *better.words, options.objective) < time);
  }
  EXPECT_GT(looked, pipec::test::seen(100));
}

TEST(Beam, LeavesNothingOutWhereItSaysSo) {
  Random random(42);
  int looked = 0, limited = 0;
  for (int n = 0; n < pipec::test::rounds(200, 5'000); ++n) {
    Problem problem = randomProblem(random, 3, 3, 3);
    for (Stage &stage : problem.stages) {
      stage.forward += 1;
      stage.backwardInput += 1;
      stage.backwardWeight += 1;
      stage.backward += 1;
      stage.boundary = 0;
    }
    if (n % 3 != 0)
      problem.memoryLimit = std::max<Bytes>(leastLimit(problem) + pick(random, 0, 9), 1);
    const std::optional<Time> least = leastOf(problem, Objective::Makespan, 3'000);
    if (!least)
      continue;
    ++looked;
    limited += problem.memoryLimit != 0;
    const Capacities capacities = capacitiesOf(problem, 1);
    const BeamOptions options{.objective = Objective::Makespan, .width = 100'000};
    const BeamResult found = beam(problem, capacities, options);
    ASSERT_TRUE(found.words && found.exhaustive) << n;
    EXPECT_EQ(timeOf(problem, *found.words, Objective::Makespan), *least) << n;
    const BeamResult none = beam(problem, capacities, {Objective::Makespan, *least, options.width});
    EXPECT_TRUE(!none.words && none.exhaustive) << n;
    for (const Time more : {1, 2, 4}) { // what is only a little better is not left out either
      const BeamResult again = beam(problem, capacities, {Objective::Makespan, *least + more, options.width});
      ASSERT_TRUE(again.words && again.exhaustive) << n;
      EXPECT_EQ(timeOf(problem, *again.words, Objective::Makespan), *least) << n;
    }
  }
  EXPECT_GT(looked, pipec::test::seen(50));
  EXPECT_GT(limited, pipec::test::seen(20));
}

TEST(Beam, LeavesOutWhereItIsNarrow) {
  const Problem problem = twoChunks(4, 8, 2, false);
  const BeamResult narrow = beam(problem, capacitiesOf(problem), {.objective = Objective::Makespan, .width = 10});
  EXPECT_FALSE(narrow.exhaustive);
  const BeamResult none =
      beam(problem, capacitiesOf(problem), {.objective = Objective::Makespan, .width = 10, .allOrNone = true});
  EXPECT_FALSE(none.exhaustive || none.words);
  EXPECT_LT(none.letters, narrow.letters);
  const BeamResult span = beam(problem, capacitiesOf(problem), {.objective = Objective::Span, .width = 10});
  EXPECT_FALSE(span.exhaustive);
}

TEST(Beam, KnowsWhatIsNotForIt) {
  Problem problem = twoChunks(4, 8, 2, false);
  EXPECT_TRUE(canBeam(problem));
  problem.backwardGroup = 2;
  EXPECT_FALSE(canBeam(problem));
  problem.backwardGroup = 1;
  problem.stages[3].backwardInput = 0;
  EXPECT_FALSE(canBeam(problem));
}

} // namespace
} // namespace pipec::schedule::test
