// Schedules with chunks and groups: against orders made another way in this file, and against published times and
// peaks.
#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/torch/OrderCsv.h"
#include "test/schedule/Support.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <tuple>

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

/// Two equal stages a rank, there and back.
Problem vShaped(int32_t p, int32_t m, Time f, Time b, Time w, Time c = 0) {
  Problem problem = looped(p, 2, m, f, b, w, c, BackwardMode::Split);
  for (int32_t s = p; s < 2 * p; ++s)
    problem.rankOf[s] = 2 * p - 1 - s;
  return problem;
}

/// PyTorch's interleaved zero bubble, from facts: I for B, warm-up with (p - 1 - r), and from the r-th backward on, the
/// W of the oldest one that has none yet.
Words torchInterleavedZb(int32_t p, int32_t v, int32_t m) {
  const int32_t round = m / std::max(1, m / p), total = m * v;
  Words made(p);
  for (int32_t r = 0; r < p; ++r) {
    const int32_t warmUp = std::min((v - 1) * round + p - 1 - r, total);
    std::vector<int32_t> owed;
    size_t paid = 0;
    for (int32_t op = 0; op < total + warmUp; ++op) {
      if (op < total)
        made[r].push_back({(op / round) % v * p + r, Letter::F});
      if (op < warmUp)
        continue;
      owed.push_back((v - 1 - ((op - warmUp) / round) % v) * p + r);
      made[r].push_back({owed.back(), Letter::B});
      if (op - warmUp >= r)
        made[r].push_back({owed[paid++], Letter::W});
    }
    while (paid < owed.size())
      made[r].push_back({owed[paid++], Letter::W});
  }
  return made;
}

TEST(PublishedOrders, InterleavedZeroBubbleIsPyTorchs) {
  int compared = 0;
  for (int32_t p = 1; p <= 9; ++p)
    for (int32_t v = 1; v <= 4; ++v)
      for (int32_t m = 1; m <= 40; ++m) {
        const Problem problem = looped(p, v, m, 1, 1, 1, 0, BackwardMode::Split);
        const Words made = words("InterleavedZeroBubble", problem);
        ASSERT_EQ(verify(problem, made), "") << "p " << p << " v " << v << " m " << m;
        if (m % std::max(1, m / p) != 0) // PyTorch takes no such; the last group is ragged
          continue;
        EXPECT_EQ(made, torchInterleavedZb(p, v, m)) << "p " << p << " v " << v << " m " << m;
        ++compared;
      }
  EXPECT_GT(compared, 500);
}

TEST(PublishedOrders, InterleavedZeroBubbleRunsWithAnyRaggedLastGroup) {
  for (int32_t p : {1, 2, 3, 4, 6})
    for (int32_t v : {1, 2, 3})
      for (int32_t m = 1; m <= 23; ++m)
        for (int32_t group = std::min(p, m); group <= m; ++group) {
          const Problem problem = looped(p, v, m, 1, 1, 1, 0, BackwardMode::Split);
          ASSERT_EQ(verify(problem, words("interleaved-zb", problem, {{"group", group}})), "")
              << "p " << p << " v " << v << " m " << m << " group " << group;
        }
  EXPECT_EQ(check(*find("interleaved-zb"), looped(4, 2, 8, 1, 1, 1, 0, BackwardMode::Split), {{"group", 3}}),
            "schedule 'interleaved-zb' takes groups of at least 4 microbatches on 4 ranks, or the ranks wait for each "
            "other; found 3");
}

/// PyTorch's ZBV, from facts: phases of fixed lengths over max(2p - 1, m) microbatches; what has a number of m or more
/// is taken out afterwards.
Words torchZbV(int32_t p, int32_t m) {
  using Numbered = std::pair<Op, int32_t>;
  const int32_t n = std::max(2 * p - 1, m);
  Words made(p);
  for (int32_t r = 0; r < p; ++r) {
    std::vector<Numbered> all;
    int32_t f[2] = {0, 0}, b[2] = {0, 0}, w[2] = {0, 0};
    const int32_t stage[2] = {r, 2 * p - 1 - r};
    const auto F = [&](int chunk) { all.push_back({{stage[chunk], Letter::F}, f[chunk]++}); };
    const auto I = [&](int chunk) { all.push_back({{stage[chunk], Letter::B}, b[chunk]++}); };
    const auto W = [&](int chunk) { all.push_back({{stage[chunk], Letter::W}, w[chunk]++}); };
    for (int32_t i = 0; i < 2 * (p - r) - 1; ++i)
      F(0);
    for (int32_t i = 0; i < r; ++i)
      F(1), F(0);
    for (int32_t i = 0; i < p - r; ++i)
      F(1), I(1), W(1);
    while (f[1] < f[0] || f[0] < n) {
      if (f[0] < n)
        F(0);
      I(0), W(0), F(1), I(1), W(1);
    }
    for (int32_t i = 0; i < r; ++i)
      I(0), I(1);
    for (int32_t i = 0; i < p - r; ++i)
      I(0), W(0);
    while (w[1] < b[1])
      W(1);
    while (w[0] < b[0])
      W(0);
    for (const auto &[op, microbatch] : all)
      if (microbatch < m)
        made[r].push_back(op);
  }
  return made;
}

TEST(PublishedOrders, ZeroBubbleVIsPyTorchs) {
  for (int32_t p = 1; p <= 17; ++p)
    for (int32_t m = 1; m <= 70; ++m) {
      const Problem problem = vShaped(p, m, 1, 1, 1);
      const Words made = words("ZBVZeroBubble", problem);
      ASSERT_EQ(verify(problem, made), "") << "p " << p << " m " << m;
      EXPECT_EQ(made, torchZbV(p, m)) << "p " << p << " m " << m;
    }
}

// Field facts, section 3.3 (LB9, LB10): with F = B = W and no transfers a rank's work and (p - 1) forwards of one
// chunk, and no idle time from step to step, in the memory of p microbatches.
TEST(PublishedOrders, ZeroBubbleVMeetsItsBound) {
  for (int32_t p : {1, 2, 3, 4, 8, 16, 32})
    for (int32_t m : {2 * p - 1, 2 * p, 4 * p, 5 * p + 1}) {
      const Problem problem = vShaped(p, m, 7, 7, 7);
      const Evaluation evaluation = evaluate(problem, words("zb-v", problem));
      EXPECT_EQ(evaluation.makespan, Time(m) * 6 * 7 + (p - 1) * 7) << "p " << p << " m " << m;
      EXPECT_EQ(evaluation.span, Time(m) * 6 * 7) << "p " << p << " m " << m;
      for (int32_t r = 0; r < p; ++r)
        EXPECT_EQ(evaluation.peak[r], 2 * p) << "p " << p << " m " << m << " r " << r;
    }
}

TEST(PublishedOrders, InterleavedZeroBubbleMakespanAndMemory) {
  for (int32_t p : {1, 2, 4, 8, 16})
    for (int32_t v : {1, 2, 4})
      for (int32_t rounds : {1, 2, 3}) {
        const int32_t m = p * rounds;
        Problem problem = looped(p, v, m, 7, 7, 7, 0, BackwardMode::Split);
        const Words made = words("interleaved-zb", problem);
        const Evaluation evaluation = evaluate(problem, made);
        EXPECT_EQ(evaluation.makespan, Time(m) * v * 21 + (p - 1) * 7) << "p " << p << " v " << v << " m " << m;
        for (int32_t r = 0; r < p; ++r)
          EXPECT_EQ(evaluation.peak[r], std::min(m * v, (v - 1) * p + p - r)) << "p " << p << " v " << v << " r " << r;
        for (Stage &stage : problem.stages)
          stage.activation = 0, stage.context = 1;
        for (int32_t r = 0; r < p; ++r)
          EXPECT_LE(peakOf(problem, made[r]), std::min(m * v, v * p)) << "p " << p << " v " << v << " r " << r;
      }
}

TEST(PublishedOrders, APlacementThatIsNotTheSchedulesIsRefused) {
  EXPECT_EQ(check(*find("zb-v"), looped(4, 2, 8, 1, 1, 1, 0, BackwardMode::Split), {}),
            "schedule 'zb-v' places stages in a v, stage 4 on rank 3; found it on rank 0");
  EXPECT_EQ(check(*find("interleaved-zb"), vShaped(4, 8, 1, 1, 1), {}),
            "schedule 'interleaved-zb' places stages in a loop, stage 4 on rank 0; found it on rank 3");
  EXPECT_EQ(check(*find("zb-v"), looped(4, 3, 8, 1, 1, 1, 0, BackwardMode::Split), {}),
            "schedule 'zb-v' has two stages on each rank, found 12 stages on 4 ranks");
  EXPECT_EQ(check(*find("zb-v"), looped(4, 2, 8, 1, 1, 1), {}), "schedule 'zb-v' has no fused backward");
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

/// w waves over p ranks.
Problem waves(int32_t p, int32_t w, int32_t m, Time f, Time b, BackwardMode mode = BackwardMode::Fused) {
  Problem problem = uniform(2 * w * p, m, f, b, b, 0, mode);
  problem.ranks = p;
  problem.rankOf = placed(p, 2 * w * p, true);
  return problem;
}

// Field facts, section 2: what bubble the rule leaves of the makespan at m = p and T_B = 2 T_F, measured apart.
TEST(PublishedOrders, HanayoHasThePublishedBubble) {
  const struct {
    int32_t p, w;
    double bubble;
  } kKnown[] = {{4, 1, .333}, {4, 2, .213}, {4, 4, .119}, {8, 1, .368}, {8, 2, .238}, {8, 4, .135}};
  for (const auto &[p, w, bubble] : kKnown) {
    const Problem problem = waves(p, w, p, 1, 1);
    const Evaluation evaluation = evaluate(problem, words("hanayo", problem));
    EXPECT_NEAR(1 - double(6 * w * p) / double(evaluation.makespan), bubble, .0006) << p << " " << w;
  }
}

TEST(PublishedOrders, HanayoHoldsNoMoreThanPMicrobatches) {
  for (int32_t p : {1, 2, 3, 5, 8})
    for (int32_t w : {1, 2, 3})
      for (int32_t m : {1, p, 3 * p + 1})
        for (BackwardMode mode : {BackwardMode::Fused, BackwardMode::Split}) {
          const Problem problem = waves(p, w, m, 3, 2, mode);
          const Words made = words("hanayo", problem);
          ASSERT_EQ(verify(problem, made), "");
          for (const Bytes peak : evaluate(problem, made).peak)
            EXPECT_LE(peak, 2 * w * std::min(p, m)) << p << " " << w << " " << m;
        }
  EXPECT_NE(check(*find("hanayo"), looped(4, 1, 4, 1, 1, 1), {}), "");
}

/// Slices of m microbatches on p ranks.
Problem sliced(int32_t p, int32_t k, int32_t m, BackwardMode mode = BackwardMode::Fused) {
  Problem problem = uniform(p, m * k, 2, 3, 1, 0, mode);
  problem.slices = problem.backwardGroup = k;
  return problem;
}

// Seq1F1B: that of 1F1B with slices for microbatches, and k - 1 more of them held.
TEST(PublishedOrders, Seq1F1BTakesAndHoldsWhatItsPaperSays) {
  for (int32_t p : {1, 2, 4, 8})
    for (int32_t k : {1, 2, 3, 5})
      for (int32_t m : {1, p, 3 * p}) {
        const Problem problem = sliced(p, k, m);
        const Words made = words("seq1f1b", problem);
        ASSERT_EQ(verify(problem, made), "") << p << " " << k << " " << m;
        const Evaluation evaluation = evaluate(problem, made);
        EXPECT_EQ(evaluation.makespan, (m * k + p - 1) * 6);
        for (int32_t r = 0; r < p; ++r)
          EXPECT_EQ(evaluation.peak[size_t(r)], std::min(m * k, p - r + k - 1));
        ASSERT_EQ(verify(problem, words("gpipe", problem)), "");
      }
}

// Its interleaved variant: a warm-up of (v - 1)p + 2(p - r - 1) + k - 1 slices where k divides p.
TEST(PublishedOrders, Seq1F1BInterleaves) {
  for (int32_t p : {1, 2, 3, 4, 6})
    for (int32_t v : {2, 3})
      for (int32_t k : {2, 3, 4})
        for (int32_t m : {1, 2, p, 2 * p + 1}) {
          Problem problem = sliced(p, k, m);
          problem.stages.resize(size_t(p * v), problem.stages.front());
          problem.rankOf = placed(p, p * v, false);
          ASSERT_EQ(check(*find("seq1f1b"), problem, {}), "");
          const Words made = words("seq1f1b", problem);
          ASSERT_EQ(verify(problem, made), "") << p << " " << v << " " << k << " " << m;
          const Evaluation evaluation = evaluate(problem, made);
          const int32_t g = (p + k - 1) / k * k;
          if (m * k >= p) {
            EXPECT_EQ(evaluation.makespan, (m * k * v + p - 1) * 6) << p << " " << v << " " << k << " " << m;
          }
          for (int32_t r = 0; m * k % g == 0 && r < p; ++r) {
            const int32_t held = std::min(m * k * v, (v - 1) * g + 2 * (p - 1 - r) + k);
            EXPECT_EQ(evaluation.peak[size_t(r)], held) << p << " " << v << " " << k << " " << m;
            const Word &word = made[size_t(r)];
            const auto warmUp =
                std::find_if(word.begin(), word.end(), [](const Op &op) { return op.letter != Letter::F; });
            // With the one that the first backward follows.
            EXPECT_EQ(warmUp - word.begin(), std::min(m * k * v, (v - 1) * g + 2 * (p - r - 1) + k - 1 + 1));
          }
        }
  Problem whole = looped(2, 2, 4, 1, 1, 1);
  EXPECT_EQ(check(*find("seq1f1b"), whole, {}),
            "schedule 'seq1f1b' with several stages a rank takes slices, found whole microbatches; interleaved-1f1b is "
            "the same without");
}

TEST(PublishedOrders, OneSliceIsOneFOneB) {
  for (BackwardMode mode : {BackwardMode::Fused, BackwardMode::Split})
    EXPECT_EQ(words("seq1f1b", sliced(5, 1, 12, mode)), words("1f1b", sliced(5, 1, 12, mode)));
}

TEST(PublishedOrders, ASliceGoesBackBeforeThoseInFrontOfIt) {
  const Problem problem = sliced(2, 3, 2);
  EXPECT_EQ(problem.backwardOf(0), 2);
  EXPECT_EQ(problem.backwardOf(2), 0);
  EXPECT_EQ(problem.backwardOf(3), 5);
  // 1F1B's warm-up is too short: the first backward is of the last slice.
  EXPECT_EQ(verify(problem, words("1f1b", uniform(2, 6, 2, 3, 1))),
            "letter 2 of rank 0: BW 2 of stage 0 comes before its F");
  EXPECT_EQ(check(*find("1f1b"), problem, {}),
            "schedule '1f1b' has no order for slices, found 3 of a microbatch; seq1f1b and gpipe have");
}

/// Two copies of p stages, with m microbatches in all.
Problem bothWays(int32_t p, int32_t m, Time f, Time b, Time w, BackwardMode mode) {
  Problem problem = uniform(2 * p, m / 2, f, b, w, 0, mode);
  problem.ranks = p;
  problem.copies = 2;
  problem.rankOf = placedBothWays(p, p);
  return problem;
}

TEST(PublishedOrders, ChimeraHasThePublishedBubble) {
  for (int32_t p : {2, 4, 8, 16})
    for (int32_t m : {p, 2 * p, 4 * p})
      for (BackwardMode mode : {BackwardMode::Fused, BackwardMode::Split}) {
        const Problem problem = bothWays(p, m, 1, 1, 1, mode);
        const Words made = words("chimera", problem);
        ASSERT_EQ(verify(problem, made), "");
        const Evaluation evaluation = evaluate(problem, made);
        if (mode == BackwardMode::Split)
          continue;
        if (m == p)
          EXPECT_EQ(evaluation.makespan, 3 * m + 2 * (p - 2)) << p;
        else
          EXPECT_LE(evaluation.makespan, 3 * m + 2 * (p - 2)) << p << " " << m;
        EXPECT_LE(*std::max_element(evaluation.peak.begin(), evaluation.peak.end()), p + 1);
      }
  EXPECT_EQ(check(*find("chimera"), bothWays(3, 6, 1, 1, 1, BackwardMode::Fused), {}),
            "schedule 'chimera' takes an even number of ranks, found 3");
  EXPECT_EQ(check(*find("chimera"), uniform(4, 4, 1, 1, 1), {}),
            "schedule 'chimera' has two copies of each stage, found 1");
}

// Field facts, section 2: p + 1 chunks on every rank, and no more idle time where F = W than published, which is of
// pairs whose two wait for each other.
TEST(PublishedOrders, DualPipeHoldsAndIdlesAsPublished) {
  for (int32_t p : {2, 4, 8, 16})
    for (int32_t m : {2 * p, 2 * p + 2, 4 * p}) {
      for (Time b : {2, 3, 5}) {
        const Problem problem = bothWays(p, m, 2, b, 2, BackwardMode::Split);
        const Time idle = evaluate(problem, words("dualpipe", problem)).makespan - (4 + b) * m;
        EXPECT_LE(idle, (p / 2 - 1) * (2 + 2 * b - 2)) << p << " " << m;
        if (b == 2) {
          EXPECT_EQ(idle, (p / 2 - 1) * 2) << p << " " << m;
        }
      }
      const Problem problem = bothWays(p, m, 2, 3, 2, BackwardMode::Split);
      const Words made = words("dualpipe", problem);
      ASSERT_EQ(verify(problem, made), "");
      const Evaluation evaluation = evaluate(problem, made);
      for (const Bytes peak : evaluation.peak)
        EXPECT_EQ(peak, p + 1);
    }
  EXPECT_EQ(check(*find("dualpipe"), bothWays(3, 8, 1, 1, 1, BackwardMode::Split), {}),
            "schedule 'dualpipe' takes an even number of ranks, found 3");
  EXPECT_EQ(check(*find("dualpipe"), bothWays(4, 6, 1, 1, 1, BackwardMode::Split), {}),
            "schedule 'dualpipe' takes at least 8 microbatches on 4 ranks, half of them each way; found 6");
}

// The published formula, (p/2-1)(FB + B - 3W) with B the whole backward, is the idle time of the rank with the most
// pairs where F = B = W, and up to one F more than it where F = W; DualPipeV has a pipeline of p ranks where DualPipe
// has one of half as many.
TEST(PublishedOrders, DualPipesIdleAsPublishedWithPairs) {
  for (int32_t p : {2, 4, 8, 16})
    for (Time b : {2, 3, 5})
      for (Time pair : {Time(2 + b), Time(3 + b), Time(4 + b)}) {
        Problem both = bothWays(p, 3 * p, 2, b, 2, BackwardMode::Split);
        Problem folded = uniform(2 * p, 3 * p, 2, b, 2, 0, BackwardMode::Split);
        folded.ranks = p;
        folded.rankOf = placed(p, 2 * p, true);
        for (const auto &[name, problem, ranks] : {std::tuple("dualpipe", &both, p / 2), {"dualpipe-v", &folded, p}}) {
          for (Stage &stage : problem->stages)
            stage.overlapped = pair;
          const Words made = words(name, *problem);
          ASSERT_EQ(verify(*problem, made), "");
          const Evaluation evaluation = evaluate(*problem, made);
          const Time idle = evaluation.makespan - *std::min_element(evaluation.busy.begin(), evaluation.busy.end());
          const Time published = (ranks - 1) * (pair + (b + 2) - 3 * 2);
          EXPECT_LE(idle, published) << name << " " << p << " " << b << " " << pair;
          EXPECT_GE(idle, published - (b == 2 ? 0 : 2)) << name << " " << p << " " << b << " " << pair;
          const Bounded bounds = lowerBounds(*problem);
          EXPECT_LE(bounds.makespan, evaluation.makespan);
          EXPECT_LE(bounds.span, evaluation.span);
        }
      }
}

TEST(PublishedOrders, DualPipeVIsDualPipeFolded) {
  for (int32_t p : {1, 2, 4, 7})
    for (int32_t m : {2 * p, 2 * p + 1, 4 * p}) {
      Problem problem = uniform(2 * p, m, 2, 2, 2, 0, BackwardMode::Split);
      problem.ranks = p;
      problem.rankOf = placed(p, 2 * p, true);
      const Words made = words("DualPipeV", problem);
      ASSERT_EQ(verify(problem, made), "");
      const Evaluation evaluation = evaluate(problem, made);
      EXPECT_EQ(evaluation.makespan, 12 * m + (p - 1) * 2) << p << " " << m;
      for (const Bytes peak : evaluation.peak)
        EXPECT_EQ(peak, 2 * p + 1);
      problem.microbatches = 2 * p - 1;
      if (p > 1) {
        EXPECT_EQ(check(*find("dualpipe-v"), problem, {}),
                  "schedule 'dualpipe-v' takes at least " + std::to_string(2 * p) + " microbatches on " +
                      std::to_string(p) + " ranks, found " + std::to_string(2 * p - 1));
      }
    }
}

// PyTorch's own rows for four ranks and eight microbatches, as its releases 2.9 on make them.
TEST(PublishedOrders, DualPipeVIsPyTorchs) {
  std::ifstream file(PIPEC_SOURCE_DIR "/lit-tests/pipec/Inputs/torch/dualpipev-passes.csv");
  ASSERT_TRUE(file);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Order order;
  OrderError error;
  ASSERT_TRUE(readOrder(text, order, error)) << error.message;
  Problem problem = uniform(int32_t(order.rankOf.size()), order.microbatches, 1, 1, 1, 0, BackwardMode::Split);
  problem.ranks = int32_t(order.words.size());
  problem.rankOf = order.rankOf;
  for (Stage &stage : problem.stages)
    stage.overlapped = 2;
  EXPECT_EQ(order.words, words("DualPipeV", problem)); // with its OVERLAP_F_B pairs
}

} // namespace
} // namespace pipec::schedule::test
