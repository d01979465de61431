// The exact search: against all orders of small problems, written down one by one, and on proven optima.
#include "compiler/schedule/exact/Exact.h"
#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/search/Search.h"
#include "test/Rounds.h"
#include "test/schedule/Optima.h"
#include "test/torch/Orders.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

constexpr int64_t kEnough = 1'000'000; // milliseconds: no question of these takes more than seconds

class ExactTest : public testing::Test {
protected:
  void SetUp() override {
    if (!canDecide())
      GTEST_SKIP() << "built without Z3";
  }
};

/// Asked to stop at its first question, it has the order that it began with, and the bound that was known.
TEST_F(ExactTest, StopsWithWhatItHas) {
  Random random(7);
  int stopped = 0;
  for (int n = 0; n < pipec::test::rounds(40, 400); ++n) {
    const Problem problem = randomProblem(random, 3, 3, 3);
    std::stop_source stop;
    const Words start = oneAtATime(problem);
    const std::optional<Exact> found =
        exact({byItself(problem)}, {.milliseconds = kEnough,
                                    .said = [&](const Exact &, Time) { stop.request_stop(); },
                                    .start = KnownOrder{0, start},
                                    .stop = stop.get_token()});
    ASSERT_TRUE(found);
    EXPECT_LE(found->questions, 1);
    if (!stop.stop_requested())
      continue; // proven without a question
    ++stopped;
    EXPECT_EQ(found->words, start);
    EXPECT_EQ(found->time, timeOf(problem, start, Objective::Span));
    EXPECT_EQ(found->bound.picoseconds(), lowerBounds(problem).span);
  }
  EXPECT_GT(stopped, pipec::test::seen(5));
}

TEST_F(ExactTest, FindsTheLeastOfAllOrders) {
  Random random(31);
  int looked = 0, limited = 0;
  for (int n = 0; n < pipec::test::rounds(70, 2'000); ++n) {
    Problem problem = randomProblem(random, 3, 3, 3);
    for (Stage &stage : problem.stages) {
      stage.forward += 1; // passes of no length have orders that their times do not tell
      stage.backwardInput += 1;
      stage.backwardWeight += 1;
      stage.backward += 1;
      stage.boundary = 0; // no buffers: what is found and what is proven have the same room
      stage.setGradientBack(0);
    }
    if (pick(random, 0, 3) == 0)
      problem.globalNorm = pick(random, 0, 9);
    for (int32_t r = 0; n % 3 == 2 && r < problem.ranks; ++r) // then a limit for each rank
      problem.withheld.push_back(pick(random, 0, 9));
    if (n % 3 != 0)
      problem.memoryLimit = std::max<Bytes>(leastLimit(problem) + pick(random, 0, 9), 1);
    const Objective objective = n % 2 ? Objective::Span : Objective::Makespan;
    bool tooMany = false;
    const std::optional<Time> least = leastOf(problem, objective, 3'000, &tooMany);
    if (tooMany)
      continue;
    ++looked;
    limited += problem.memoryLimit != 0;
    const std::optional<Exact> found = exact({byItself(problem)}, {.objective = objective, .milliseconds = kEnough});
    ASSERT_EQ(found.has_value(), least.has_value());
    if (!found)
      continue;
    EXPECT_EQ(found->time, *least) << n;
    EXPECT_EQ(found->bound.picoseconds(), *least) << n;
    EXPECT_EQ(timeOf(problem, found->words, objective), found->time);
    const Bounded bounds = lowerBounds(problem);
    EXPECT_LE(objective == Objective::Span ? bounds.span : bounds.makespan, *least) << n;
  }
  EXPECT_GT(looked, pipec::test::seen(20));
  EXPECT_GT(limited, pipec::test::seen(10));
}

/// Transfers take time, another one on the way back. Without a memory limit buffers take no room.
TEST_F(ExactTest, FindsTheLeastWhereGradientsHaveASizeOfTheirOwn) {
  Random random(37);
  int looked = 0;
  for (int n = 0; n < pipec::test::rounds(40, 1'000); ++n) {
    Problem problem = randomProblem(random, 3, 3, 3);
    problem.memoryLimit = 0;
    for (Stage &stage : problem.stages) {
      stage.forward += 1; // as above
      stage.backwardInput += 1;
      stage.backwardWeight += 1;
      stage.backward += 1;
      stage.setGradientBack(pick(random, 0, 5));
    }
    const Objective objective = n % 2 ? Objective::Span : Objective::Makespan;
    bool tooMany = false;
    const std::optional<Time> least = leastOf(problem, objective, 3'000, &tooMany);
    if (tooMany)
      continue;
    ++looked;
    const std::optional<Exact> found = exact({byItself(problem)}, {.objective = objective, .milliseconds = kEnough});
    ASSERT_TRUE(found && least) << n;
    EXPECT_EQ(found->time, *least) << n;
    EXPECT_EQ(found->bound.picoseconds(), *least) << n;
  }
  EXPECT_GT(looked, pipec::test::seen(15));
}

/// Every so many of the proven optima; all of them where it soaks.
TEST_F(ExactTest, ProvesOptima) {
  const std::vector<Optimum> optima = readOptima();
  ASSERT_EQ(optima.size(), 230u);
  const size_t stride = pipec::test::stride(17, 1);
  for (size_t i = 0; i < optima.size(); i += stride) {
    const Optimum &each = optima[i];
    const Objective objective = each.span ? Objective::Span : Objective::Makespan;
    const std::optional<Exact> found =
        exact({byItself(each.problem)}, {.objective = objective, .milliseconds = kEnough});
    ASSERT_TRUE(found) << each.row;
    EXPECT_EQ(found->time, each.optimum) << each.row;
    EXPECT_EQ(found->bound.picoseconds(), each.optimum) << each.row;
  }
}

TEST_F(ExactTest, BoundsAreNeverAboveTheOptimumOfTwoChunks) {
  Random random(32);
  for (int n = 0; n < 12; ++n) {
    const auto p = int32_t(pick(random, 2, 3)), m = int32_t(pick(random, 2, 4));
    Problem problem = uniform(2 * p, m, pick(random, 1, 4), pick(random, 1, 4), pick(random, 1, 4), pick(random, 0, 1),
                              BackwardMode::Split);
    problem.ranks = p;
    problem.rankOf = placed(p, 2 * p, n % 2 == 0);
    for (Stage &stage : problem.stages)
      stage.activation = stage.context = 1;
    problem.memoryLimit = 4 * pick(random, 1, p);
    const Objective objective = n % 4 < 2 ? Objective::Span : Objective::Makespan;
    const std::optional<Exact> found = exact({byItself(problem)}, {.objective = objective, .milliseconds = 500});
    ASSERT_TRUE(found);
    const Bounded bounds = lowerBounds(problem);
    EXPECT_LE(objective == Objective::Span ? bounds.span : bounds.makespan, found->time) << n;
    EXPECT_FALSE(found->bound.isRefutedBy(found->time));
  }
}

TEST_F(ExactTest, SaysWhatItCouldNotProve) {
  Problem problem = uniform(8, 64, 10, 11, 8, 1, BackwardMode::Split);
  for (Stage &stage : problem.stages)
    stage.context = 1;
  problem.memoryLimit = 8;
  const std::optional<Exact> found = exact({byItself(problem)}, {.milliseconds = 1});
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->bound.isReachedBy(found->time));
  EXPECT_EQ(timeOf(problem, found->words, Objective::Span), found->time);
}

/// All states of few ranks that may still come to less are looked at before anything is asked.
TEST_F(ExactTest, ProvesTwoChunksOnTwoRanks) {
  Problem problem = uniform(4, 12, 10, 11, 8, 2, BackwardMode::Split);
  problem.ranks = 2;
  problem.rankOf = placed(2, 4, false);
  for (Stage &stage : problem.stages)
    stage.context = 1;
  problem.memoryLimit = 8;
  const std::optional<Exact> found =
      exact({byItself(problem)}, {.objective = Objective::Makespan, .milliseconds = kEnough});
  ASSERT_TRUE(found);
  EXPECT_GT(found->time, lowerBounds(problem).makespan);
  EXPECT_EQ(found->time, found->bound.picoseconds());
  EXPECT_EQ(found->questions, 0);
}

/// Of two placements the better, and a bound that holds for both.
TEST_F(ExactTest, LooksAtEachPlacement) {
  std::vector<Problem> problems;
  for (const bool back : {false, true}) {
    Problem problem = uniform(4, 4, 1, 1, 1, 0, BackwardMode::Split);
    problem.ranks = 2;
    problem.rankOf = placed(2, 4, back);
    for (Stage &stage : problem.stages)
      stage.context = 1;
    problem.memoryLimit = 6;
    problems.push_back(std::move(problem));
  }
  const ExactOptions options{.objective = Objective::Makespan, .milliseconds = kEnough};
  const std::optional<Exact> loop = exact({byItself(problems[0])}, options),
                             back = exact({byItself(problems[1])}, options),
                             both = exact({byItself(problems[0]), byItself(problems[1])}, options);
  ASSERT_TRUE(loop && back && both);
  EXPECT_EQ(both->time, std::min(loop->time, back->time));
  EXPECT_EQ(both->bound.picoseconds(), both->time);
}

/// Where a plan may take less than its order's times say, what no such order beats is no proof.
TEST_F(ExactTest, ProvesByTheTimesOfTheProofAlone) {
  const Problem orders = uniform(2, 2, 10, 10, 10, 0, BackwardMode::Split),
                least = uniform(2, 2, 9, 9, 9, 0, BackwardMode::Split);
  const ExactOptions options{.objective = Objective::Makespan,
                             .milliseconds = 500}; // a gap is left, which is searched on
  const std::optional<Exact> own = exact({byItself(orders)}, options), proven = exact({byItself(least)}, options);
  const std::optional<Exact> found = exact({{orders, {LeastProblem::proven(least)}}}, options);
  ASSERT_TRUE(own && proven && found);
  EXPECT_TRUE(own->bound.isReachedBy(own->time));
  EXPECT_EQ(found->time, own->time);
  EXPECT_EQ(timeOf(orders, found->words, options.objective), found->time);
  EXPECT_FALSE(found->bound.isRefutedBy(proven->time));
  EXPECT_FALSE(found->bound.isReachedBy(found->time));
}

} // namespace
} // namespace pipec::schedule::test
