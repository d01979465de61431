// The largest cycle mean against Karp's theorem on matrices of every kind, among them such whose critical cycle no
// single step shows, so that the trials have to be halved.
#include "compiler/schedule/evaluate/Span.h"
#include "runtime/plan/Limits.h"
#include "test/schedule/Reference.h"
#include "test/schedule/Support.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

using Matrix = std::vector<std::vector<Time>>;

Time meanOf(const Matrix &matrix) {
  const auto ranks = static_cast<int32_t>(matrix.size());
  const auto takeStep = [&](const std::vector<Time> &starts, Step &step) {
    for (Time start : starts)
      EXPECT_TRUE(start >= 0 && start <= limits::kTime);
    step.ends.assign(ranks, kNone);
    step.origins.assign(ranks, 0);
    for (int32_t i = 0; i < ranks; ++i)
      for (int32_t j = 0; j < ranks; ++j)
        if (starts[i] + matrix[i][j] > step.ends[j]) {
          step.ends[j] = starts[i] + matrix[i][j];
          step.origins[j] = i;
        }
  };
  Step step;
  takeStep(std::vector<Time>(ranks, 0), step);
  return largestCycleMean(step, takeStep);
}

TEST(Span, EqualsKarp) {
  Random random(10);
  for (int64_t most : {1, 2, 99, 1'000'000})
    for (int64_t ranks : {1, 2, 3, 4, 5, 10})
      for (int n = 0; n < 1000; ++n) {
        Matrix matrix(ranks, std::vector<Time>(ranks));
        for (auto &row : matrix)
          for (Time &entry : row)
            entry = pick(random, 0, most);
        ASSERT_EQ(meanOf(matrix), karp(matrix));
      }
}

TEST(Span, FollowsACycleOverAllRanks) {
  Random random(11);
  for (int64_t ranks = 2; ranks <= 12; ++ranks)
    for (int n = 0; n < 100; ++n) {
      Matrix matrix(ranks, std::vector<Time>(ranks, 0));
      for (int64_t i = 0; i < ranks; ++i)
        matrix[i][(i + 1) % ranks] = 1000 + pick(random, 0, 3);
      ASSERT_EQ(meanOf(matrix), karp(matrix));
    }
}

TEST(Span, RoundsUp) {
  EXPECT_EQ(meanOf({{0, 4}, {3, 0}}), 4); // 7 / 2
  EXPECT_EQ(meanOf({{0, 4}, {4, 0}}), 4);
  EXPECT_EQ(meanOf({{0, 9, 0}, {0, 0, 9}, {4, 0, 0}}), 8); // 22 / 3
}

TEST(Span, StaysInRangeAtTheLimits) {
  const Time most = limits::kTime;
  EXPECT_EQ(meanOf({{0, most, 0}, {0, 0, most}, {most, 0, 0}}), most);
  EXPECT_EQ(meanOf({{0, most, 0}, {0, 0, most}, {0, 0, 0}}), (2 * most + 2) / 3);
}

} // namespace
} // namespace pipec::schedule::test
