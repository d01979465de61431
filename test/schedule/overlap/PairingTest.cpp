// Overlapped pairs in the search: words with them are right, never take longer than without, and shorter where pairs
// save much.
#include "compiler/schedule/overlap/Pairing.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "test/schedule/Support.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

/// `chunks` stages a rank, there and back; a pair takes 9 where its passes take 12.
Problem pairs(int32_t ranks, int32_t chunks, int32_t microbatches, BackwardMode mode = BackwardMode::Split) {
  Problem problem = uniform(ranks, microbatches, 4, 4, 4, 0, mode);
  problem.stages.resize(size_t(ranks * chunks), problem.stages.front());
  for (Stage &stage : problem.stages)
    stage.overlapped = 9;
  problem.rankOf = placed(ranks, ranks * chunks, true);
  return problem;
}

int countPairs(const Words &words) {
  int count = 0;
  for (const Word &word : words)
    count += int(std::count_if(word.begin(), word.end(), [](const Op &op) { return op.overlapped; }));
  return count;
}

void expectFits(const Problem &problem, const Words &words) {
  ASSERT_EQ(verify(problem, words), "");
  const Capacities capacities = capacitiesOf(problem, 1);
  for (size_t r = 0; r < words.size(); ++r) {
    if (!capacities.empty()) {
      EXPECT_LE(peakOf(problem, words[r]), capacities[r]);
    }
    for (size_t i = 0; i < words[r].size(); ++i)
      if (words[r][i].overlapped) {
        EXPECT_TRUE(mayOverlap(problem, words[r][i].stage, words[r][i + 1].stage));
      }
  }
}

/// Random costs, placement and limit; some stages say what a pair takes, some of these what no pair can.
Problem randomPairs(Random &random) {
  Problem problem = randomProblem(random, 4, 8, 9);
  Words words = randomWords(random, problem);
  const std::vector<Bytes> peak = evaluate(problem, words).peak;
  overlapSome(random, problem, words);
  for (Stage &stage : problem.stages)
    if (const int64_t how = pick(random, 0, 9); how < 2)
      stage.overlapped.reset();
    else if (how == 2)
      stage.overlapped = pick(random, 0, 50);
  if (pick(random, 0, 2) > 0)
    for (int32_t r = 0; r < problem.ranks; ++r)
      problem.memoryLimit = std::max(problem.memoryLimit, peak[size_t(r)] + problem.staticBytes[size_t(r)] +
                                                              problem.workspace[size_t(r)] + pick(random, 0, 8));
  return problem;
}

TEST(Pairing, WordsAreRightAndNoLongerThanWithoutPairs) {
  Random random(3);
  int found = 0, shorter = 0;
  for (int n = 0; n < 40; ++n) {
    const Problem problem = randomPairs(random);
    const SolveOptions options{n % 2 ? Objective::Span : Objective::Makespan, 4, 1};
    const std::optional<Solution> plain = solvePaired(apart(problem), options),
                                  solution = solvePaired(problem, options);
    ASSERT_EQ(plain.has_value(), solution.has_value());
    if (!solution)
      continue;
    expectFits(problem, solution->words);
    EXPECT_EQ(solution->time, timeOf(problem, solution->words, options.objective));
    EXPECT_LE(solution->time, plain->time);
    EXPECT_LE(solution->bound, solution->time);
    found += countPairs(solution->words) > 0;
    shorter += solution->time < plain->time;
  }
  EXPECT_GT(found, 10);
  EXPECT_GT(shorter, 8);
}

TEST(Pairing, SavesWhatPairsSave) {
  for (const BackwardMode mode : {BackwardMode::Split, BackwardMode::Fused})
    for (const int32_t chunks : {1, 2})
      for (const Objective objective : {Objective::Span, Objective::Makespan}) {
        const Problem problem = pairs(4, chunks, 16, mode);
        const SolveOptions options{.objective = objective, .effort = 20};
        const std::optional<Solution> solution = solvePaired(problem, options);
        ASSERT_TRUE(solution);
        expectFits(problem, solution->words);
        // Of 12 a microbatch and chunk 9 are left but while the pipeline fills and drains.
        EXPECT_LT(solution->time * 100, solvePaired(apart(problem), options)->time * 95);
        EXPECT_EQ(solution->words, solvePaired(problem, options)->words);
      }
}

TEST(Pairing, IsNoWorseThanDualPipeV) {
  const Entry &entry = *find("dualpipe-v");
  for (const int32_t ranks : {2, 3, 4, 8})
    for (const bool limited : {false, true}) {
      Problem problem = pairs(ranks, 2, 3 * ranks);
      const Words words = schedule::wordsOf(entry, problem, {});
      const Evaluation published = evaluate(problem, words);
      if (limited)
        problem.memoryLimit = *std::max_element(published.peak.begin(), published.peak.end());
      const std::optional<Solution> solution = solvePaired(problem, {.objective = Objective::Makespan, .effort = 20});
      ASSERT_TRUE(solution);
      expectFits(problem, solution->words);
      EXPECT_LE(solution->time, published.makespan);
    }
}

// Rank 1 of 1F1B: its backward is there as soon as its forward has run, and the next forward long since.
TEST(Pairing, NeighboursRunTogetherWhereBothAreThere) {
  const Problem problem = pairs(2, 1, 4);
  const Op f{1, Letter::F}, b{1, Letter::B}, w{1, Letter::W}, overlapped{1, Letter::F, true}, whole{1, Letter::BW};
  Words words = {{}, {f, f, b, w, f, b, w, f, b, w, b, w}};
  for (int i = 0; i < 4; ++i)
    words[0].push_back({0, Letter::F});
  for (int i = 0; i < 4; ++i) {
    words[0].push_back({0, Letter::B});
    words[0].push_back({0, Letter::W});
  }
  EXPECT_EQ(paired(problem, {}, words, false)[1],
            (Word{f, overlapped, whole, overlapped, whole, overlapped, whole, b, w}));
  // A forward before the backward that it stood behind holds one microbatch more.
  EXPECT_EQ(paired(problem, {}, words, true)[1], (Word{f, f, overlapped, whole, overlapped, whole, b, w, b, w}));
  EXPECT_EQ(paired(problem, {4, 2}, words, true)[1], words[1]);
  // Where a pair saves nothing, none waits.
  Problem slow = problem;
  for (Stage &stage : slow.stages)
    stage.overlapped = 12;
  EXPECT_EQ(paired(apart(slow), {}, words, false), words);
}

TEST(Pairing, ListedWordsFitAnyProblemAndBeatNoBound) {
  Random random(9);
  int made = 0, together = 0;
  for (int n = 0; n < 2000; ++n) {
    const Problem problem = randomPairs(random);
    const PairPolicy policy{pick(random, 0, 1) == 1, int32_t(pick(random, 0, 3)) * 50,
                            int32_t(pick(random, 0, 3)) * 100, int32_t(pick(random, 0, 2)) * 100};
    const std::optional<Words> words = listPairs(problem, capacitiesOf(problem, 1), policy);
    if (!words)
      continue;
    expectFits(problem, *words);
    const Evaluation evaluation = evaluate(problem, *words);
    const Bounded bounds = lowerBounds(problem);
    EXPECT_LE(bounds.makespan, evaluation.makespan) << n << " " << int(bounds.makespanArgument);
    EXPECT_LE(bounds.span, evaluation.span) << n << " " << int(bounds.spanArgument);
    ++made;
    together += countPairs(*words) > 0;
  }
  EXPECT_GT(made, 500);
  EXPECT_GT(together, 200);
}

} // namespace
} // namespace pipec::schedule::test
