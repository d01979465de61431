// Schedules with chunks and groups: against orders made another way in this file, and against published times and
// peaks.
#include "compiler/schedule/Evaluate.h"
#include "test/schedule/Support.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

/// v equal stages a rank in loop placement.
Problem looped(int32_t p, int32_t v, int32_t m, Time f, Time b, Time w, Time c = 0,
               BackwardMode mode = BackwardMode::Fused) {
  Problem problem = uniform(p * v, m, f, b, w, c, mode);
  problem.ranks = p;
  for (size_t s = 0; s < problem.rankOf.size(); ++s)
    problem.rankOf[s] = static_cast<int32_t>(s) % p;
  return problem;
}

Words words(const char *name, const Problem &problem, const Parameters &parameters = {}) {
  const Entry *entry = find(name);
  EXPECT_NE(entry, nullptr) << name;
  EXPECT_EQ(check(*entry, problem, parameters), "") << name;
  return wordsOf(*entry, problem, parameters);
}

TEST(PublishedOrders, KFkBHoldsGroups) {
  for (int32_t p : {1, 2, 4, 7})
    for (int32_t m : {1, 3, 8, 19})
      for (int32_t k = 1; k <= m; ++k) {
        const Problem problem = uniform(p, m, 3, 4, 2);
        const Words made = words("kfkb", problem, {{"k", k}});
        ASSERT_EQ(verify(problem, made), "");
        const Evaluation evaluation = evaluate(problem, made);
        for (int32_t r = 0; r < p; ++r)
          EXPECT_EQ(evaluation.peak[r], std::min(m, k * (p - r)));
      }
}

/// PyTorch's interleaved loop, from facts: the k-th forward is of local chunk (k / R) mod v, the k-th backward of
/// v - 1 - that; warm-up, pairs of forward and backward, backwards.
Words torchInterleaved(int32_t p, int32_t v, int32_t m) {
  const int32_t round = m / std::max(1, m / p);
  Words made(p);
  for (int32_t r = 0; r < p; ++r) {
    const int32_t total = m * v, warmUp = std::min((v - 1) * round + 2 * (p - 1 - r), total);
    const auto forward = [&](int32_t k) { made[r].push_back({(k / round) % v * p + r, Letter::F}); };
    const auto backward = [&](int32_t k) { made[r].push_back({(v - 1 - (k / round) % v) * p + r, Letter::BW}); };
    for (int32_t k = 0; k < warmUp; ++k)
      forward(k);
    for (int32_t k = warmUp; k < total; ++k) {
      forward(k);
      backward(k - warmUp);
    }
    for (int32_t k = total - warmUp; k < total; ++k)
      backward(k);
  }
  return made;
}

TEST(PublishedOrders, InterleavedIsPyTorchs) {
  for (int32_t p = 1; p <= 9; ++p)
    for (int32_t v = 1; v <= 4; ++v)
      for (int32_t m = 1; m <= 40; ++m)
        if (m % std::max(1, m / p) == 0) { // PyTorch takes no others
          EXPECT_EQ(words("interleaved1f1b", looped(p, v, m, 1, 1, 1)), torchInterleaved(p, v, m))
              << "p " << p << " v " << v << " m " << m;
        }
}

TEST(PublishedOrders, InterleavedRunsWithAnyRaggedLastGroup) {
  for (int32_t p : {1, 2, 3, 4, 6})
    for (int32_t v : {1, 2, 3})
      for (int32_t m = 1; m <= 23; ++m)
        for (int32_t group = std::min(p, m); group <= m; ++group)
          for (BackwardMode mode : {BackwardMode::Fused, BackwardMode::Split}) {
            const Problem problem = looped(p, v, m, 1, 1, 1, 0, mode);
            ASSERT_EQ(verify(problem, words("interleaved-1f1b", problem, {{"group", group}})), "")
                << "p " << p << " v " << v << " m " << m << " group " << group;
          }
}

// Field facts, section 3.3 (LB8): with a fused backward and no latency the interleaved schedule's makespan is m times a
// rank's work plus (p - 1)(F + BW) of one chunk, where groups of p divide the microbatches.
TEST(PublishedOrders, InterleavedMakespan) {
  for (int32_t p : {2, 4, 8, 16})
    for (int32_t v : {2, 3, 4})
      for (int32_t rounds : {1, 2, 4}) {
        const int32_t m = p * rounds;
        const Problem problem = looped(p, v, m, 6, 7, 5);
        const Evaluation evaluation = evaluate(problem, words("interleaved-1f1b", problem));
        EXPECT_EQ(evaluation.makespan, Time(m) * v * 18 + (p - 1) * 18) << "p " << p << " v " << v << " m " << m;
        for (int32_t r = 0; r < p; ++r)
          EXPECT_EQ(evaluation.peak[r], std::min(m * v, (v - 1) * p + 2 * (p - 1 - r) + 1));
      }
}

TEST(PublishedOrders, EagerHoldsTwiceAsManyAndHidesTransfers) {
  for (int32_t p : {1, 2, 4, 8, 16})
    for (int32_t m : {p, 2 * p, 5 * p + 1}) {
      for (Time c : {0, 1, 9}) { // 2c <= F + B + W
        const Problem problem = uniform(p, m, 6, 7, 5, c);
        const Evaluation evaluation = evaluate(problem, words("eager-1f1b", problem));
        EXPECT_EQ(evaluation.makespan, Time(m + p - 1) * 18 + 2 * c * (p - 1)) << "p " << p << " m " << m << " c " << c;
        for (int32_t r = 0; r < p; ++r)
          EXPECT_EQ(evaluation.peak[r], std::min(m, 2 * (p - r) - 1));
      }
    }
}

TEST(PublishedOrders, LoopedBfsGoesThroughChunks) {
  const Problem problem = looped(2, 2, 3, 1, 1, 1);
  const Words made = words("LoopedBFS", problem);
  const auto op = [](int32_t stage, Letter letter) { return Op{stage, letter}; };
  using enum Letter;
  EXPECT_EQ(made[1], (Word{op(1, F), op(1, F), op(1, F), op(3, F), op(3, F), op(3, F), op(3, BW), op(3, BW), op(3, BW),
                           op(1, BW), op(1, BW), op(1, BW)}));
  EXPECT_TRUE(find("looped-bfs")->lastMicrobatchFirst);
  for (int32_t p : {1, 2, 5})
    for (int32_t v : {1, 2, 4})
      for (int32_t m : {1, 2, 5, 9})
        for (BackwardMode mode : {BackwardMode::Fused, BackwardMode::Split}) {
          const Problem each = looped(p, v, m, 1, 1, 1, 0, mode);
          EXPECT_EQ(verify(each, words("looped-bfs", each)), "");
        }
}

TEST(PublishedOrders, ParametersAreChecked) {
  const Problem problem = uniform(4, 8, 1, 1, 1);
  EXPECT_EQ(check(*find("kfkb"), problem, {{"k", 0}}),
            "schedule 'kfkb' takes k from 1 to the number of microbatches, 8; found 0");
  EXPECT_EQ(check(*find("kfkb"), problem, {{"k", 9}}),
            "schedule 'kfkb' takes k from 1 to the number of microbatches, 8; found 9");
  EXPECT_EQ(
      check(*find("interleaved-1f1b"), looped(4, 2, 8, 1, 1, 1), {{"group", 3}}),
      "schedule 'interleaved-1f1b' takes groups of at least 4 microbatches on 4 ranks, or the ranks wait for each "
      "other; found 3");
  EXPECT_EQ(check(*find("interleaved-1f1b"), looped(4, 2, 3, 1, 1, 1), {{"group", 3}}), "");
  EXPECT_EQ(check(*find("1f1b"), problem, {{"k", 2}}), "schedule '1f1b' has no parameter 'k'");
  EXPECT_EQ(check(*find("1f1b"), looped(2, 2, 8, 1, 1, 1), {}),
            "schedule '1f1b' has one stage on each rank, found 4 stages on 2 ranks");
}

} // namespace
} // namespace pipec::schedule::test
