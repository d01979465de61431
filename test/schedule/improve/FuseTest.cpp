// Whole backwards in place of split ones: right, never longer, and the best choice where all can be tried.
#include "compiler/schedule/improve/Fuse.h"

#include "compiler/schedule/evaluate/Evaluate.h"
#include "test/schedule/Support.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

/// A split problem whose whole backwards take less than their two parts.
Problem randomMixed(Random &random, int ranks, int stages, int microbatches) {
  Problem problem = randomProblem(random, ranks, stages, microbatches);
  problem.backward = BackwardMode::Split;
  problem.mixed = true;
  for (Stage &stage : problem.stages) {
    const Time both = stage.backwardInput + stage.backwardWeight;
    stage.backward = both - pick(random, 0, std::min(stage.backwardInput, stage.backwardWeight));
    stage.overlapped.reset();
  }
  return problem;
}

TEST(Fuse, IsRightAndNeverLonger) {
  Random random(1);
  int fused = 0;
  for (int n = 0; n != 2'000; ++n) {
    const Problem problem = randomMixed(random, 4, 6, 8);
    const Words words = randomWords(random, problem);
    for (const Objective objective : {Objective::Span, Objective::Makespan}) {
      const Words made = fuseBackwards(problem, words, objective);
      ASSERT_EQ(verify(problem, made), "");
      EXPECT_LE(timeOf(problem, made, objective), timeOf(problem, words, objective));
      fused += made != words;
      for (size_t rank = 0; rank != words.size(); ++rank)
        EXPECT_LE(peakOf(problem, made[rank]), peakOf(problem, words[rank]));
    }
  }
  EXPECT_GT(fused, 1'000);
}

/// The least time over all choices of pairs.
Time leastOfAll(const Problem &problem, const Words &words, const std::vector<std::pair<size_t, size_t>> &pairs) {
  Time least = timeOf(problem, words, Objective::Span);
  for (size_t chosen = 1; chosen < size_t(1) << pairs.size(); ++chosen) {
    Words made = words;
    for (size_t i = pairs.size(); i-- != 0;)
      if (chosen >> i & 1) {
        Word &word = made[pairs[i].first];
        word[pairs[i].second].letter = Letter::BW;
        word.erase(word.begin() + ptrdiff_t(pairs[i].second) + 1);
      }
    least = std::min(least, timeOf(problem, made, Objective::Span));
  }
  return least;
}

TEST(Fuse, FindsTheBestChoiceMostly) {
  Random random(2);
  int best = 0, all = 0;
  for (int n = 0; n != 1'000; ++n) {
    const Problem problem = randomMixed(random, 3, 3, 4);
    const Words words = randomWords(random, problem);
    std::vector<std::pair<size_t, size_t>> pairs;
    for (size_t rank = 0; rank != words.size(); ++rank)
      for (size_t i = 0; i + 1 < words[rank].size(); ++i)
        if (words[rank][i].letter == Letter::B && words[rank][i + 1] == Op{words[rank][i].stage, Letter::W, false})
          pairs.emplace_back(rank, i);
    if (pairs.empty() || pairs.size() > 8)
      continue;
    ++all;
    const Time found = timeOf(problem, fuseBackwards(problem, words, Objective::Span), Objective::Span);
    const Time least = leastOfAll(problem, words, pairs);
    EXPECT_GE(found, least);
    best += found == least;
  }
  EXPECT_GT(all, 300);
  EXPECT_GE(best * 100, all * 97) << best << " of " << all;
}

TEST(Fuse, WaitsForNobodyWhoWaits) {
  using enum Letter;
  Problem problem;
  problem.ranks = 2;
  problem.microbatches = 1;
  problem.backward = BackwardMode::Split;
  problem.mixed = true;
  problem.rankOf = {0, 1};
  problem.stages.assign(2, {.forward = 10, .backwardInput = 10, .backwardWeight = 10, .backward = 18});
  // Rank 0 waits for the gradient of stage 1; nobody waits for that of stage 0.
  const Words words = {{{0, F}, {0, B}, {0, W}}, {{1, F}, {1, B}, {1, W}}};
  EXPECT_EQ(fuseBackwards(problem, words, Objective::Makespan), (Words{{{0, F}, {0, BW}}, {{1, F}, {1, B}, {1, W}}}));
}

} // namespace
} // namespace pipec::schedule::test
