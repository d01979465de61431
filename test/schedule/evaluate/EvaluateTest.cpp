// The evaluator against closed formulas from the papers, against their tables, and against the reference.
#include "runtime/plan/Limits.h"
#include "test/schedule/Reference.h"
#include "test/schedule/Support.h"

#include <cmath>
#include <gtest/gtest.h>
#include <set>

namespace pipec::schedule::test {
namespace {

TEST(Evaluate, OneFOneBHasItsClosedFormula) {
  const Time f = 18, bw = 27;
  for (int32_t p = 2; p <= 32; ++p)
    for (int32_t m : std::set<int32_t>{p, p + 1, 2 * p - 1, 37, 41, 53, 97, 4 * p, 4 * p + 3})
      for (Time c : {0, 1, 7, 30, 200}) {
        if (m < p)
          continue;
        const Problem problem = uniform(p, m, f, 17, 10, c);
        const Evaluation result = evaluate(problem, wordsOf("1f1b", problem));
        ASSERT_TRUE(result.complete);
        const Time expected = (m + p - 1) * (f + bw) + 2 * c * (p - 1 + (m - 1) * (p - 1) / p);
        EXPECT_EQ(result.makespan, expected) << "p=" << p << " m=" << m << " c=" << c;
        EXPECT_EQ(result.span, expected) << "rank 0 works from the first start to the last end";
        for (int32_t r = 0; r < p; ++r) {
          EXPECT_EQ(result.peak[r], std::min(m, p - r));
          EXPECT_EQ(result.busy[r], m * (f + bw));
        }
      }
}

TEST(Evaluate, GPipeHasItsClosedFormula) {
  for (int32_t p = 1; p <= 32; ++p)
    for (int32_t m : {1, 2, 7, 31, 64})
      for (Time c : {0, 1, 7, 200}) {
        const Problem problem = uniform(p, m, 18, 17, 10, c);
        const Evaluation result = evaluate(problem, wordsOf("gpipe", problem));
        EXPECT_EQ(result.makespan, (m + p - 1) * 45 + 2 * c * (p - 1)) << "p=" << p << " m=" << m << " c=" << c;
        EXPECT_EQ(result.peak, std::vector<Bytes>(p, m));
      }
}

TEST(Evaluate, ASharedWeightIsSummedBehindTheLastBackwards) {
  for (int32_t p = 2; p <= 16; ++p)
    for (const Time optimizer : {0, 5}) {
      Problem problem = uniform(p, 2 * p, 18, 17, 10, 7);
      for (Stage &stage : problem.stages)
        stage.optimizer = optimizer;
      const Evaluation alone = evaluate(problem, wordsOf("gpipe", problem));
      problem.shared = {{{0, p - 1}, {0, p - 1}, 1000}}; // rank 0 ends last, and has nothing else to do
      const Evaluation with = evaluate(problem, wordsOf("gpipe", problem));
      EXPECT_EQ(with.makespan, alone.makespan + 2 * 7);
      EXPECT_EQ(with.busy, alone.busy);
      problem.shared = {{{0, 1}, {0}, 1000}}; // layers of one stage
      EXPECT_EQ(evaluate(problem, wordsOf("gpipe", problem)).makespan, alone.makespan);
    }
}

TEST(Evaluate, PeaksWithFewMicrobatches) {
  for (int32_t p = 1; p <= 12; ++p)
    for (int32_t m = 1; m <= p; ++m) {
      const Problem problem = uniform(p, m, 1, 1, 1);
      const std::vector<Bytes> oneFOneB = evaluate(problem, wordsOf("1f1b", problem)).peak;
      for (int32_t r = 0; r < p; ++r)
        EXPECT_EQ(oneFOneB[r], std::min(m, p - r));
    }
}

/// Zero Bubble Pipeline Parallelism (arXiv 2401.10241), tables 9 (times in microseconds) and 5 (bubble rate of 1F1B).
struct Row {
  int32_t p, m;
  Time f, b, w, c;
  double bubble;
};

class PaperBubbles : public testing::TestWithParam<Row> {};

TEST_P(PaperBubbles, OfOneFOneB) {
  const Row &row = GetParam();
  const Time us = 1'000'000;
  const Problem problem = uniform(row.p, row.m, row.f * us, row.b * us, row.w * us, row.c * us);
  const Evaluation result = evaluate(problem, wordsOf("1f1b", problem));
  const double bubble = 1 - double(result.busy[0]) / double(result.makespan);
  EXPECT_EQ(std::lround(bubble * 10'000), std::lround(row.bubble * 10'000)) << bubble;
}

INSTANTIATE_TEST_SUITE_P(
    Table5, PaperBubbles,
    testing::Values(Row{8, 24, 18522, 18086, 9337, 601, .2431}, Row{8, 32, 18513, 18086, 9331, 626, .1985},
                    Row{8, 64, 18546, 18097, 9321, 762, .1240}, Row{8, 24, 29718, 29444, 19927, 527, .2347},
                    Row{8, 32, 29802, 29428, 19530, 577, .1898}, Row{8, 64, 29935, 29621, 19388, 535, .1091},
                    Row{16, 48, 11347, 11248, 8132, 377, .2552}, Row{16, 64, 11307, 11254, 8101, 379, .2082},
                    Row{16, 128, 11325, 11308, 8109, 378, .1251}, Row{32, 96, 10419, 10207, 7715, 408, .2646},
                    Row{32, 128, 10408, 10204, 7703, 408, .2168}, Row{32, 256, 10402, 10248, 7698, 460, .1352}));

TEST(Evaluate, EqualsTheReference) {
  Random random(4);
  int fractional = 0;
  for (int n = 0; n < 3000; ++n) {
    const Problem problem = randomProblem(random, 6, 9, 7);
    const Words words = randomWords(random, problem);
    const Evaluation result = evaluate(problem, words);
    const Reference reference(problem, words);
    ASSERT_TRUE(result.complete);
    EXPECT_EQ(result.makespan, reference.makespan());
    EXPECT_EQ(result.span, reference.span());
    EXPECT_EQ(result.peak, reference.peaks());
    EXPECT_LE(result.span, result.makespan);
    EXPECT_GE(result.span, *std::max_element(result.busy.begin(), result.busy.end()));
    fractional += result.span < result.makespan;
  }
  EXPECT_GT(fractional, 100); // the two times differ often enough to have been told apart
}

TEST(Evaluate, EqualsTheReferenceWithOverlappedPairs) {
  Random random(14);
  int pairs = 0;
  for (int n = 0; n < 2000; ++n) {
    Problem problem = randomProblem(random, 5, 8, 6);
    problem.backward = BackwardMode::Fused;
    Words words = randomWords(random, problem);
    overlapSome(random, problem, words);
    ASSERT_EQ(verify(problem, words), "");
    const Evaluation result = evaluate(problem, words);
    const Reference reference(problem, words);
    ASSERT_TRUE(result.complete);
    EXPECT_EQ(result.makespan, reference.makespan());
    EXPECT_EQ(result.span, reference.span());
    EXPECT_EQ(result.peak, reference.peaks());
    EXPECT_GE(result.span, *std::max_element(result.busy.begin(), result.busy.end()));
    for (const Word &word : words)
      pairs += int(std::count_if(word.begin(), word.end(), [](const Op &op) { return op.overlapped; }));
  }
  EXPECT_GT(pairs, 2000);
}

TEST(Evaluate, EqualsTheReferenceWithForwardsRunAgain) {
  Random random(24);
  for (int n = 0; n < 3000; ++n) {
    Problem problem = randomProblem(random, 5, 8, 6);
    recomputeSome(random, problem);
    ASSERT_EQ(check(problem), "");
    Words words = randomWords(random, problem);
    if (problem.backward == BackwardMode::Fused && n % 2 == 0)
      overlapSome(random, problem, words);
    ASSERT_EQ(verify(problem, words), "");
    const Evaluation result = evaluate(problem, words);
    const Words all = withRecompute(problem, words);
    const Reference reference(problem, all);
    ASSERT_TRUE(result.complete);
    EXPECT_EQ(result.makespan, reference.makespan()) << n;
    EXPECT_EQ(result.span, reference.span()) << n;
    EXPECT_EQ(result.peak, reference.peaks()) << n;
    EXPECT_GE(result.span, *std::max_element(result.busy.begin(), result.busy.end()));
  }
}

// Two of 3 and 4 in 5 together: what either yields is there when both have ended.
TEST(Evaluate, APairTakesItsOwnTime) {
  Problem problem = uniform(1, 2, 3, 2, 2);
  problem.stages[0].overlapped = 5;
  const Op f{0, Letter::F}, b{0, Letter::BW}, overlapped{0, Letter::F, true};
  const Evaluation apart = evaluate(problem, {{f, f, b, b}}), together = evaluate(problem, {{f, overlapped, b, b}});
  EXPECT_EQ(apart.makespan, 14);
  EXPECT_EQ(together.makespan, 12);
  EXPECT_EQ(together.busy.front(), 12);
  EXPECT_EQ(together.peak, apart.peak);
}

TEST(Evaluate, SpanStaysExactWithManyRanks) {
  Random random(5);
  for (int n = 0; n < 60; ++n) {
    const Problem problem = randomProblem(random, 24, 30, 6);
    const Words words = randomWords(random, problem);
    EXPECT_EQ(evaluate(problem, words).span, Reference(problem, words).span());
  }
}

TEST(Evaluate, SpanOfAParallelogramIsItsWork) {
  // ZB-H2 (arXiv 2401.10241, section 3.2) at equal costs: 2(p - r) - 1 forwards, then one each of F, B, W.
  for (int32_t p = 2; p <= 9; ++p) {
    const int32_t m = 4 * p;
    const Problem problem = uniform(p, m, 5, 5, 5, 0, BackwardMode::Split);
    Block block{3, {}, {}, {}};
    for (int64_t i = 0; i < p; ++i) {
      block.forward.push_back(i);
      block.backwardInput.push_back(6 * p - 5 - 5 * i);
      block.backwardWeight.push_back(6 * p - 4 + i);
    }
    ASSERT_EQ(check(problem, block), "");
    const Evaluation result = evaluate(problem, repeat(problem, block));
    EXPECT_EQ(result.span, 15 * m);
    EXPECT_EQ(result.makespan, 15 * m + 5 * (p - 1));
  }
}

TEST(Evaluate, GivesStartsWhenAsked) {
  const Problem problem = uniform(2, 2, 10, 4, 3, 1);
  EXPECT_TRUE(evaluate(problem, wordsOf("1f1b", problem)).starts.empty());
  const Evaluation result = evaluate(problem, wordsOf("1f1b", problem), {.withSpan = false, .withStarts = true});
  EXPECT_EQ(result.starts, (std::vector<std::vector<Time>>{{0, 10, 29, 46}, {11, 21, 28, 38}}));
  EXPECT_EQ(result.makespan, 53);
  EXPECT_EQ(result.span, 0);
}

TEST(Evaluate, OptimizersFollowTheWord) {
  Problem problem = uniform(2, 1, 10, 4, 3);
  problem.stages[0].optimizer = 2;
  problem.stages[1].optimizer = 100;
  const Evaluation result = evaluate(problem, wordsOf("gpipe", problem));
  EXPECT_EQ(result.makespan, 20 + 7 + 100);
  EXPECT_EQ(result.busy, (std::vector<Time>{19, 117}));
  EXPECT_EQ(result.span, 117); // rank 0 need not wait for rank 1's optimizer
}

TEST(Evaluate, ReportsACycle) {
  const Problem problem = uniform(2, 2, 1, 1, 1);
  const Words words = {{{0, Letter::F}, {0, Letter::BW}, {0, Letter::F}, {0, Letter::BW}},
                       {{1, Letter::F}, {1, Letter::F}, {1, Letter::BW}, {1, Letter::BW}}};
  EXPECT_FALSE(evaluate(problem, words).complete);
  EXPECT_FALSE(evaluate(problem, words).tooLong);
}

TEST(Evaluate, ReportsAStepBeyondTheLimit) {
  Problem problem = uniform(3, 1, 0, 0, 0);
  for (Stage &stage : problem.stages)
    stage.forward = limits::kTime;
  ASSERT_EQ(check(problem), "");
  const Evaluation result = evaluate(problem, wordsOf("gpipe", problem));
  EXPECT_FALSE(result.complete);
  EXPECT_TRUE(result.tooLong);
}

TEST(Evaluate, HoldsTheLargestNumbers) {
  Problem problem = uniform(2, 4, 0, 0, 0);
  for (Stage &stage : problem.stages) {
    stage.forward = stage.backward = limits::kTime / 16;
    stage.activation = stage.context = limits::kBytes;
  }
  const Evaluation result = evaluate(problem, wordsOf("gpipe", problem));
  EXPECT_EQ(result.makespan, limits::kTime / 16 * 10);
  EXPECT_EQ(result.span, limits::kTime / 16 * 10);
  EXPECT_EQ(result.peak[0], INT64_MAX); // 2^63, which does not fit
}

TEST(Evaluate, WorksAtTheSizesThatPeopleRun) {
  for (auto [p, m] : {std::pair(64, 1024), std::pair(256, 1024)}) {
    const Problem problem = uniform(p, m, 10, 11, 8, 1, BackwardMode::Split);
    const Words words = wordsOf("1f1b", problem);
    EXPECT_EQ(verify(problem, words), "");
    const Evaluation result = evaluate(problem, words);
    EXPECT_TRUE(result.complete);
    EXPECT_EQ(result.busy[0], Time(29) * m);
  }
}

} // namespace
} // namespace pipec::schedule::test
