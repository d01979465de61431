// The zero-bubble and controllable-memory schedules at their papers' figures: exact peaks for every p from 2 to 32,
// times at F = B = W, and legal at every size.
#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "test/Rounds.h"
#include "test/schedule/Support.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

constexpr const char *kNames[] = {"zb-h1", "zb-h2", "v-min", "v-half", "v-zb", "1f1b-v", "gis", "gis-h"};

/// Equal stages in the schedule's placement, F = B = W = 1000 a rank; all is held until W ends.
Problem problemOf(const Entry &entry, int32_t p, int32_t m, int32_t chunks = 2) {
  const int32_t v = entry.stagesPerRank == 0 ? chunks : entry.stagesPerRank;
  Problem problem = uniform(p * v, m, 1000 / v, 1000 / v, 1000 / v, 0, entry.defaultBackward);
  problem.ranks = p;
  problem.rankOf = placementOf(entry, p, p * v);
  for (Stage &stage : problem.stages) {
    stage.activation = 0;
    stage.context = 1;
  }
  return problem;
}

Evaluation run(const char *name, int32_t p, int32_t m) {
  const Entry &entry = *find(name);
  const Problem problem = problemOf(entry, p, m);
  EXPECT_EQ(check(entry, problem, {}), "") << name << " p=" << p << " m=" << m;
  const Words words = wordsOf(entry, problem, {});
  EXPECT_EQ(verify(problem, words), "") << name << " p=" << p << " m=" << m;
  return evaluate(problem, words);
}

Bytes peakOf(const Evaluation &evaluation) { return *std::max_element(evaluation.peak.begin(), evaluation.peak.end()); }

TEST(ControllableMemory, PeaksAreThePapers) {
  for (int32_t p = 2; p <= 32; ++p) {
    const int32_t m = 3 * p;
    EXPECT_EQ(peakOf(run("zb-h1", p, m)), p);
    EXPECT_EQ(peakOf(run("zb-h2", p, m)), 2 * p - 1);
    EXPECT_EQ(peakOf(run("v-min", p, m)), 2 * ((p + 4) / 3)) << p;
    EXPECT_EQ(peakOf(run("v-half", p, m)), 2 * ((p + 2) / 2)) << p;
    EXPECT_EQ(peakOf(run("v-zb", p, m)), 2 * p) << p;
    EXPECT_EQ(peakOf(run("1f1b-v", p, m)), 2 * ((2 * p + 3) / 3)) << p;
    EXPECT_EQ(peakOf(run("gis", p, m)), 2 * p) << p;
    EXPECT_EQ(peakOf(run("gis-h", p, 4 * ((p + 1) / 2))), (p + 1) / 2 + p) << p;
  }
}

TEST(ControllableMemory, TimesAreThePapers) {
  struct Row {
    int32_t p;
    double vMin, vHalf, zb; // makespans at m = 4 p
  };
  for (const auto &[p, vMin, vHalf, vZb] :
       {Row{4, 53.5, 50.5, 49.5}, {8, 109.5, 104.5, 99.5}, {16, 221.5, 212.5, 199.5}, {32, 445.5, 428.5, 399.5}}) {
    EXPECT_LE(run("v-min", p, 4 * p).makespan, 1000 * vMin);
    EXPECT_LE(run("v-half", p, 4 * p).makespan, 1000 * vHalf);
    EXPECT_EQ(run("v-zb", p, 4 * p).makespan, 1000 * vZb);
    EXPECT_EQ(run("zb-h1", p, 4 * p).makespan, 1000 * (13 * p - 1));
    EXPECT_EQ(run("zb-h2", p, 4 * p).span, 1000 * 12 * p);
    EXPECT_EQ(run("gis", p, 4 * p).makespan, 1000 * (13 * p - 1));
    EXPECT_EQ(run("gis-h", p, 4 * p).makespan, 1000 * (13 * p - 1) + 250 * p);
  }
}

/// At F = B = W none that holds K chunks is shorter than (6m + 6p - 3K - 1) / 2 forwards (the paper's appendix), or
/// than the work and the way to the last rank.
TEST(ControllableMemory, VBlocksTakeNoLongerThanTheLaw) {
  for (int32_t p = 2; p <= 32; ++p)
    for (const auto &[name, slots] :
         {std::pair("v-half", 0), std::pair("v-min", p % 3 == 2 ? 2 : 0), std::pair("v-zb", 0), std::pair("zb-v", 0)}) {
      const int32_t m = 4 * p;
      const Evaluation evaluation = run(name, p, m);
      const Time law = std::max<Time>(6 * m + 6 * p - 3 * peakOf(evaluation) - 1, 6 * m + p - 1);
      EXPECT_LE(evaluation.makespan, 500 * (law + slots)) << name << " p=" << p;
    }
}

/// What the catalogue says of the whole step, from as many microbatches on as there are ranks.
TEST(ControllableMemory, BubblesAreAtMostTheFormulas) {
  for (const auto &[name, parts, of] :
       {std::tuple("v-min", 2, 3), std::tuple("v-half", 1, 2), std::tuple("1f1b-v", 5, 6)})
    for (int32_t p = 2; p <= 24; ++p)
      for (const int32_t m : {p, p + 1, 2 * p - 1, 3 * p + 1, 6 * p})
        EXPECT_LE(of * (run(name, p, m).makespan - 3000 * m), parts * p * 3000) << name << " p=" << p << " m=" << m;
}

/// What the catalogue says of costs other than F = B = W, against the evaluator.
TEST(ControllableMemory, PeriodsAreAtMostTheFormulas) {
  struct Costs {
    int32_t p;
    Time f, b, w, c;
    bool hides = false; // V-ZB and ZB-V hide these transfers
  };
  std::vector<Costs> all = {{8, 26000, 35000, 27000, 2000}, {12, 19000, 25000, 6000, 0}}; // V-Half takes longer
  for (const int32_t p : {4, 8, 16})
    for (const auto &[f, b, w, c] : {std::array<Time, 4>{10, 10, 10, 0},
                                     {10, 15, 15, 0},
                                     {20, 10, 10, 0},
                                     {5, 20, 5, 0},
                                     {15, 20, 10, 10},
                                     {50, 55, 40, 10},
                                     {926, 904, 467, 60},
                                     {10, 15, 5, 1},
                                     {1486, 1472, 996, 53},
                                     {567, 562, 407, 38},
                                     {1441, 1438, 968, 161},
                                     {676, 697, 525, 76},
                                     {946, 975, 729, 88}})
      all.push_back({p, f, b, w, c, true});
  Random random(7);
  const auto some = [&] { return Time(1000) * pick(random, 1, 40); };
  for (int i = 0; i != pipec::test::rounds(120); ++i)
    all.push_back({int32_t(pick(random, 2, 16)), some(), some(), some(), i % 3 == 0 ? 0 : some()});
  for (const auto &[p, f, b, w, c, hides] : all) {
    const Time work = 2 * (f + b + w);
    for (const auto &[name, formula, more] : {std::tuple("v-min", 6 * std::max({f, b, w}) + 6 * c, 3),
                                              std::tuple("v-half", std::max({work, 4 * f + w, 4 * b + w}) + 4 * c, 100),
                                              std::tuple("1f1b-v", std::max(6 * f, 3 * (b + w)) + 6 * c, 3),
                                              std::tuple("v-zb", work, 3), std::tuple("zb-v", work, 3)}) {
      if (std::string_view(name).find("zb") != std::string_view::npos && !hides)
        continue;
      const auto end = [&, name = name, p = p, f = f, b = b, w = w, c = c](int32_t m) {
        Problem problem = problemOf(*find(name), p, m);
        for (Stage &stage : problem.stages) {
          stage.forward = f;
          stage.backwardInput = b;
          stage.backwardWeight = w;
          stage.backward = b + w;
        }
        problem.link.latency = c;
        return evaluate(problem, wordsOf(*find(name), problem, {}), {.withSpan = false}).makespan;
      };
      const Time period = (end(8 * p) - end(4 * p)) / (4 * p);
      EXPECT_LE(period * 1000, formula * (1000 + more))
          << name << " p=" << p << " f=" << f << " b=" << b << " w=" << w << " c=" << c;
      EXPECT_GE(period, work);
    }
  }
}

TEST(ControllableMemory, OfAnySizeIsLegalAndNoBetterThanItsBound) {
  for (const char *name : kNames)
    for (int32_t p = 1; p <= 9; ++p)
      for (int32_t m : {1, 2, 3, 5, 8, 13, 21, 37, 60})
        for (int32_t chunks : {1, 2, 3}) {
          const Entry &entry = *find(name);
          if (entry.stagesPerRank != 0 && chunks > 1)
            continue;
          const Problem problem = problemOf(entry, p, m, chunks);
          ASSERT_EQ(check(entry, problem, {}), "");
          const Words words = wordsOf(entry, problem, {});
          ASSERT_EQ(verify(problem, words), "") << name << " p=" << p << " m=" << m << " v=" << chunks;
          const Evaluation evaluation = evaluate(problem, words);
          Problem limited = problem;
          limited.memoryLimit = peakOf(evaluation);
          const Bounded bounded = lowerBounds(limited);
          EXPECT_LE(bounded.makespan, evaluation.makespan) << name;
          EXPECT_LE(bounded.span, evaluation.span) << name;
        }
}

/// The authors' words: x(p - 1 - r) forwards; then F, B and, once as many forwards and backwards have passed, W.
TEST(ControllableMemory, ZbHOrdersAreTheirAuthors) {
  for (const auto &[name, x] : {std::pair("zb-h1", 1), std::pair("zb-h2", 2)})
    for (int32_t p = 1; p <= 12; ++p) {
      const int32_t m = 3 * p;
      const Problem problem = uniform(p, m, 1, 1, 1, 0, BackwardMode::Split);
      const Words words = wordsOf(name, problem);
      for (int32_t r = 0; r < p; ++r) {
        Word expected(size_t(x * (p - 1 - r)), {r, Letter::F});
        int32_t forwards = x * (p - 1 - r), weights = 0;
        for (int32_t b = 0; b < m; ++b) {
          if (forwards++ < m)
            expected.push_back({r, Letter::F});
          expected.push_back({r, Letter::B});
          if (x * (p - 1 - r) + b >= x * (p - 1) && weights < m) {
            expected.push_back({r, Letter::W});
            ++weights;
          }
        }
        for (; weights < m; ++weights)
          expected.push_back({r, Letter::W});
        EXPECT_EQ(words[size_t(r)], expected) << name << " p=" << p << " r=" << r;
      }
    }
}

TEST(Refill, LongStepsAreShortOnesStretched) {
  const Entry &entry = *find("v-half");
  for (int32_t p : {2, 5, 8}) {
    const Evaluation four = run("v-half", p, 4 * p), ten = run("v-half", p, 10 * p);
    EXPECT_EQ(four.peak, ten.peak);
    EXPECT_EQ(ten.makespan - four.makespan, 6 * p * 3000);
    EXPECT_EQ(verify(problemOf(entry, p, 10 * p), wordsOf(entry, problemOf(entry, p, 10 * p), {})), "");
  }
}

} // namespace
} // namespace pipec::schedule::test
