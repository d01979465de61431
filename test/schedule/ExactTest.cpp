// The exact search: against all orders of small problems, written down one by one, and on proven optima.
#include "compiler/schedule/Exact.h"
#include "compiler/schedule/Bounds.h"
#include "compiler/schedule/Evaluate.h"
#include "compiler/schedule/Search.h"
#include "test/schedule/Optima.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace pipec::schedule::test {
namespace {

constexpr int64_t kMinute = 60'000;

class ExactTest : public testing::Test {
protected:
  void SetUp() override {
    if (!canDecide())
      GTEST_SKIP() << "built without Z3";
  }
};

/// Every word of a rank that its data, seen from it alone, and its capacity allow.
class RankWords {
public:
  RankWords(const Problem &problem, int32_t rank, Bytes capacity, size_t most)
      : problem(problem), capacity(capacity), most(most), done(problem.stages.size(), {0, 0, 0}) {
    for (size_t s = 0; s < problem.stages.size(); ++s)
      if (problem.rankOf[s] == rank)
        mine.push_back(int32_t(s));
    extend(0);
  }
  std::vector<Word> words;

private:
  const Problem &problem;
  const Bytes capacity;
  const size_t most; // one more says that there are too many
  std::vector<int32_t> mine;
  std::vector<std::array<int32_t, 3>> done;
  Word word;

  void extend(Bytes live) {
    if (words.size() > most)
      return;
    const bool fused = problem.backward == BackwardMode::Fused;
    if (word.size() == mine.size() * size_t(problem.microbatches) * (fused ? 2 : 3)) {
      words.push_back(word);
      return;
    }
    for (const int32_t s : mine)
      for (int kind = 0; kind < (fused ? 2 : 3); ++kind) {
        std::array<int32_t, 3> &own = done[size_t(s)];
        if (own[size_t(kind)] == (kind == 0 ? problem.microbatches : own[size_t(kind) - 1]))
          continue;
        const Letter letter = kind == 1 && fused ? Letter::BW : static_cast<Letter>(kind);
        const Bytes change = Bytes(changeOf(problem.stages[size_t(s)], letter));
        if (live + change > capacity)
          continue;
        ++own[size_t(kind)];
        word.push_back({s, letter});
        extend(live + change);
        word.pop_back();
        --own[size_t(kind)];
      }
  }
};

/// The least time over all orders; none where none fits.
std::optional<Time> leastOf(const Problem &problem, Objective objective, size_t most, bool &tooMany) {
  const Capacities capacities = capacitiesOf(problem, 1);
  std::vector<std::vector<Word>> choices;
  size_t all = 1;
  for (int32_t r = 0; r < problem.ranks; ++r) {
    choices.push_back(RankWords(problem, r, capacities.empty() ? 1 << 30 : capacities[size_t(r)], most).words);
    all *= choices.back().size();
    if (tooMany = all > most; tooMany)
      return std::nullopt;
  }
  std::optional<Time> least;
  for (size_t n = 0; n < all; ++n) {
    Words words;
    for (size_t r = 0, rest = n; r < choices.size(); rest /= choices[r++].size())
      words.push_back(choices[r][rest % choices[r].size()]);
    const Evaluation evaluation = evaluate(problem, words);
    if (!evaluation.complete)
      continue;
    const Time time = objective == Objective::Span ? evaluation.span : evaluation.makespan;
    least = std::min(least.value_or(time), time);
  }
  return least;
}

TEST_F(ExactTest, FindsTheLeastOfAllOrders) {
  Random random(31);
  int looked = 0, limited = 0;
  for (int n = 0; n < (std::getenv("PIPEC_SOAK") ? 2'000 : 70); ++n) {
    Problem problem = randomProblem(random, 3, 3, 3);
    for (Stage &stage : problem.stages) {
      stage.forward += 1; // passes of no length have orders that their times do not tell
      stage.backwardInput += 1;
      stage.backwardWeight += 1;
      stage.backward += 1;
      stage.boundary = 0; // no buffers: what is found and what is proven have the same room
    }
    if (pick(random, 0, 3) == 0)
      problem.globalNorm = pick(random, 0, 9);
    if (n % 3 != 0)
      problem.memoryLimit = std::max<Bytes>(leastLimit(problem) + pick(random, 0, 9), 1);
    const Objective objective = n % 2 ? Objective::Span : Objective::Makespan;
    bool tooMany = false;
    const std::optional<Time> least = leastOf(problem, objective, 3'000, tooMany);
    if (tooMany)
      continue;
    ++looked;
    limited += problem.memoryLimit != 0;
    const std::optional<Exact> found = exact({problem}, {.objective = objective, .milliseconds = kMinute});
    ASSERT_EQ(found.has_value(), least.has_value());
    if (!found)
      continue;
    EXPECT_EQ(found->time, *least) << n;
    EXPECT_EQ(found->bound, *least) << n;
    EXPECT_EQ(timeOf(problem, found->words, objective), found->time);
    const Bounded bounds = lowerBounds(problem);
    EXPECT_LE(objective == Objective::Span ? bounds.span : bounds.makespan, *least) << n;
  }
  EXPECT_GT(looked, 20);
  EXPECT_GT(limited, 10);
}

/// Every so many of the proven optima; all of them where it soaks.
TEST_F(ExactTest, ProvesOptima) {
  const std::vector<Optimum> optima = readOptima();
  const size_t stride = std::getenv("PIPEC_SOAK") ? 1 : 17;
  for (size_t i = 0; i < optima.size(); i += stride) {
    const Optimum &each = optima[i];
    const Objective objective = each.span ? Objective::Span : Objective::Makespan;
    const std::optional<Exact> found = exact({each.problem}, {.objective = objective, .milliseconds = kMinute});
    ASSERT_TRUE(found) << each.row;
    EXPECT_EQ(found->time, each.optimum) << each.row;
    EXPECT_EQ(found->bound, each.optimum) << each.row;
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
    const std::optional<Exact> found = exact({problem}, {.objective = objective, .milliseconds = 500});
    ASSERT_TRUE(found);
    const Bounded bounds = lowerBounds(problem);
    EXPECT_LE(objective == Objective::Span ? bounds.span : bounds.makespan, found->time) << n;
    EXPECT_LE(found->bound, found->time);
  }
}

TEST_F(ExactTest, SaysWhatItCouldNotProve) {
  Problem problem = uniform(8, 64, 10, 11, 8, 1, BackwardMode::Split);
  for (Stage &stage : problem.stages)
    stage.context = 1;
  problem.memoryLimit = 8;
  const std::optional<Exact> found = exact({problem}, {.milliseconds = 1});
  ASSERT_TRUE(found);
  EXPECT_LT(found->bound, found->time);
  EXPECT_EQ(timeOf(problem, found->words, Objective::Span), found->time);
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
  const ExactOptions options{.objective = Objective::Makespan, .milliseconds = kMinute};
  const std::optional<Exact> loop = exact({problems[0]}, options), back = exact({problems[1]}, options),
                             both = exact(problems, options);
  ASSERT_TRUE(loop && back && both);
  EXPECT_EQ(both->time, std::min(loop->time, back->time));
  EXPECT_EQ(both->bound, both->time);
}

} // namespace
} // namespace pipec::schedule::test
