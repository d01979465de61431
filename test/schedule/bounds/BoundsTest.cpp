// Bounds: never above what any order achieves, and tight where theory says so.
#include "compiler/schedule/bounds/Bounds.h"
#include "compiler/schedule/bounds/Packing.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/overlap/Pairing.h"
#include "compiler/schedule/search/Search.h"
#include "runtime/plan/Limits.h"
#include "test/Rounds.h"
#include "test/schedule/Optima.h"
#include "test/schedule/Reference.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

/// The least limit under which an order with these peaks runs on every rank.
Bytes limitFor(const Problem &problem, const std::vector<Bytes> &peak) {
  Bytes limit = 0;
  for (int32_t r = 0; r < problem.ranks; ++r)
    limit = std::max(limit, peak[r] + Bytes(heldAlways(problem, 1)[size_t(r)]));
  return limit;
}

/// Without a limit, and under the least in which the order runs.
void expectBounded(Problem problem, const Evaluation &result) {
  for (const Bytes limit : {Bytes(0), limitFor(problem, result.peak)}) {
    problem.memoryLimit = limit;
    const Bounded bounds = lowerBounds(problem);
    EXPECT_LE(bounds.makespan, result.makespan) << int(bounds.makespanArgument);
    EXPECT_LE(bounds.span, result.span) << int(bounds.spanArgument);
  }
}

void expectNoViolation(Random &random, Problem problem, int orders) {
  std::vector<Evaluation> results;
  for (int n = 0; n < orders; ++n)
    results.push_back(evaluate(problem, randomWords(random, problem)));
  const Bounded free = lowerBounds(problem);
  for (const Evaluation &result : results) {
    EXPECT_LE(free.makespan, result.makespan);
    EXPECT_LE(free.span, result.span);
    problem.memoryLimit = limitFor(problem, result.peak);
    if (problem.memoryLimit == 0)
      continue; // 0 is no limit
    const Bounded limited = lowerBounds(problem);
    EXPECT_LE(free.makespan, limited.makespan);
    EXPECT_LE(free.span, limited.span);
    for (const Evaluation &other : results)
      if (limitFor(problem, other.peak) <= problem.memoryLimit) {
        EXPECT_LE(limited.makespan, other.makespan) << int(limited.makespanArgument);
        EXPECT_LE(limited.span, other.span) << int(limited.spanArgument);
      }
  }
}

TEST(Bounds, NoRandomOrderBeatsThem) {
  Random random(6);
  for (int n = 0; n < pipec::test::rounds(4000); ++n)
    expectNoViolation(random, randomProblem(random, 4, 7, 8), 4);
}

TEST(Bounds, NoOrderOfATinyProblemBeatsThem) {
  Random random(7); // so many orders of so few letters that most of all are seen
  for (int n = 0; n < pipec::test::rounds(400); ++n)
    expectNoViolation(random, randomProblem(random, 3, 4, 3), 60);
}

TEST(Bounds, NoOrderOfSplitAndWholeBackwardsBeatsThem) {
  Random random(17);
  for (int n = 0; n < pipec::test::rounds(6000); ++n) {
    Problem problem = n % 2 == 0 ? randomProblem(random, 4, 6, 7) : randomProblem(random, 2, 3, 3);
    problem.backward = BackwardMode::Split;
    problem.mixed = true;
    for (Stage &stage : problem.stages) {
      stage.backward = pick(random, 0, stage.backwardInput + stage.backwardWeight);
      stage.backwardContext = pick(random, 0, 1) * pick(random, 0, 8);
      stage.overlapped.reset();
    }
    Words words = randomWords(random, problem);
    for (Word &word : words)
      for (size_t i = 0; i + 1 < word.size(); ++i)
        if (word[i].letter == Letter::B && word[i + 1] == Op{word[i].stage, Letter::W, false} &&
            pick(random, 0, 3) != 0) {
          word[i].letter = Letter::BW;
          word.erase(word.begin() + ptrdiff_t(i) + 1);
        }
    ASSERT_EQ(verify(problem, words), "");
    const Evaluation result = evaluate(problem, words);
    expectBounded(problem, result);
  }
}

TEST(Bounds, NoOrderWithOverlappedPairsBeatsThem) {
  Random random(15);
  for (int n = 0; n < pipec::test::rounds(4000); ++n) {
    Problem problem = randomProblem(random, 4, 6, 7);
    problem.backward = BackwardMode::Fused;
    Words words = randomWords(random, problem);
    overlapSome(random, problem, words);
    const Evaluation result = evaluate(problem, words);
    expectBounded(problem, result);
  }
}

// Split backwards, some of them whole and in pairs.
TEST(Bounds, NoOrderThatPairsNeighboursBeatsThem) {
  Random random(16);
  int pairs = 0;
  for (int n = 0; n < pipec::test::rounds(10000); ++n) {
    Problem problem = randomProblem(random, 4, 6, 7);
    Words words = randomWords(random, problem);
    overlapSome(random, problem, words);
    for (Word &word : words)
      for (Op &op : word)
        op.overlapped = false;
    words = paired(problem, {}, words, n % 2 == 0);
    if (!verify(problem, words).empty())
      continue;
    for (const Word &word : words)
      pairs += int(std::count_if(word.begin(), word.end(), [](const Op &op) { return op.overlapped; }));
    const Evaluation result = evaluate(problem, words);
    for (const Bytes limit : {Bytes(0), limitFor(problem, result.peak)}) {
      problem.memoryLimit = limit;
      const Bounded bounds = lowerBounds(problem);
      EXPECT_LE(bounds.makespan, result.makespan) << n << " " << int(bounds.makespanArgument);
      EXPECT_LE(bounds.span, result.span) << n << " " << int(bounds.spanArgument);
    }
  }
  EXPECT_GT(pairs, pipec::test::seen(5000));
}

/// Of stages that run their forward again, the R anywhere between its forward and its backward.
void expectNoneRunningAgainBeats(Random &random, Problem problem, int orders) {
  struct Result {
    Time makespan, span;
    Bytes limit;
  };
  std::vector<Result> results;
  for (int n = 0; n < orders; ++n) {
    Words words = withRecompute(problem, randomWords(random, problem));
    hoistSome(random, words);
    const Reference reference(problem, words);
    results.push_back({reference.makespan(), reference.span(), limitFor(problem, reference.peaks())});
  }
  std::vector<Bytes> limits{0};
  for (const Result &each : results)
    limits.push_back(each.limit);
  for (const Bytes limit : limits) {
    problem.memoryLimit = limit;
    const Bounded bounds = lowerBounds(problem);
    for (const Result &each : results)
      if (limit == 0 || each.limit <= limit) {
        EXPECT_LE(bounds.makespan, each.makespan) << int(bounds.makespanArgument);
        EXPECT_LE(bounds.span, each.span) << int(bounds.spanArgument);
        EXPECT_LE(limit == 0 ? 0 : leastLimit(problem), each.limit);
      }
  }
}

TEST(Bounds, NoOrderThatRunsForwardsAgainBeatsThem) {
  Random random(18);
  for (int n = 0; n < pipec::test::rounds(3000); ++n) {
    Problem problem = n % 4 == 0 ? randomProblem(random, 3, 4, 3) : randomProblem(random, 4, 7, 8);
    recomputeSome(random, problem);
    expectNoneRunningAgainBeats(random, problem, n % 4 == 0 ? 40 : 3);
  }
}

/// Equal stages, one a rank.
Problem anyUniform(Random &random) {
  return uniform(static_cast<int32_t>(pick(random, 2, 5)), static_cast<int32_t>(pick(random, 1, 12)),
                 pick(random, 1, 12), pick(random, 1, 12), pick(random, 0, 12), pick(random, 0, 4),
                 pick(random, 0, 1) ? BackwardMode::Fused : BackwardMode::Split);
}

TEST(Bounds, NoEvenOrderThatRunsForwardsAgainBeatsThem) {
  Random random(19);
  for (int n = 0; n < pipec::test::rounds(600); ++n) {
    Problem problem = anyUniform(random);
    for (Stage &stage : problem.stages) {
      stage.activation = 4;
      stage.context = n % 3;
    }
    recomputeSome(random, problem);
    expectNoneRunningAgainBeats(random, problem, 12);
  }
}

// 4 ranks, F = B = W = 4, a pair takes 9 of 12. Rank 0 waits 4 ranks' F and 3 ranks' B, 28, for its first backward; so
// 7 of its 32 F run alone, and save nothing: 32 * 9 + 7 * 3.
TEST(Bounds, WhatRunsBeforeTheFirstBackwardIsInNoPair) {
  Problem problem = uniform(4, 32, 4, 4, 4, 0, BackwardMode::Split);
  for (Stage &stage : problem.stages)
    stage.overlapped = 9;
  EXPECT_EQ(lowerBounds(problem).span, 32 * 9 + 7 * 3);
  // Room for 4: 32 microbatches are held for 32 each, and pairs hold them longer: n on each rank, 4 n (9 - 4 + 9 - 4).
  problem.memoryLimit = 4;
  const Time span = lowerBounds(problem).span;
  EXPECT_GT(span, 32 * 9 + 7 * 3);
  const Time saved = 32 * 12 - span; // by so many thirds pairs
  EXPECT_GE(4 * span, 32 * 32 + (saved + 2) / 3 * 4 * 10);
  EXPECT_LT(4 * (span - 1), 32 * 32 + (saved + 1 + 2) / 3 * 4 * 10);
}

TEST(Bounds, NoneOfOneStageARankBeatsThem) {
  Random random(8);
  for (int n = 0; n < pipec::test::rounds(1000); ++n) {
    Problem problem = anyUniform(random);
    problem.staticBytes.assign(problem.ranks, 0);
    problem.workspace.assign(problem.ranks, 0);
    for (Stage &stage : problem.stages)
      stage.context = n % 3;
    expectNoViolation(random, problem, 12);
  }
}

/// Any costs, sizes and links for the stages of a published schedule.
Problem published(Random &random, const Entry &entry, int32_t p, int32_t m) {
  const int32_t v = entry.stagesPerRank == 0 ? static_cast<int32_t>(pick(random, 1, 3)) : entry.stagesPerRank;
  Problem problem = uniform(p * v * entry.copies(), m, 1, 1, 1, 0, entry.defaultBackward);
  problem.ranks = p;
  problem.copies = entry.copies();
  problem.rankOf = placementOf(entry, p, p * v);
  if (entry.allowsSlices) {
    problem.slices = static_cast<int32_t>(pick(random, 1, 3));
    problem.microbatches *= problem.slices;
  }
  problem.backwardGroup = entry.backwardGroup(problem);
  for (Stage &stage : problem.stages)
    stage = {.forward = pick(random, 1, 9),
             .backwardInput = pick(random, 1, 9),
             .backwardWeight = pick(random, 0, 9),
             .backward = pick(random, 1, 18),
             .optimizer = pick(random, 0, 3),
             .boundary = pick(random, 0, 2),
             .activation = pick(random, 0, 3),
             .context = pick(random, 0, 3),
             .gradients = pick(random, 0, 5)};
  for (Stage &stage : problem.stages) {
    stage.setGradientBack((stage.boundary * 2 + stage.activation) % 4);
    if (entry.mixesBackwards)
      stage.backward = stage.backwardInput + stage.backwardWeight;
  }
  for (size_t s = problem.stages.size() / 2; entry.copies() == 2 && s != problem.stages.size(); ++s)
    problem.stages[s] = problem.stages[s - problem.stages.size() / 2];
  problem.link = {pick(random, 0, 4), pick(random, 0, 1) * 1'000'000'000'000};
  problem.staticBytes.assign(size_t(p), pick(random, 0, 5));
  problem.workspace.assign(size_t(p), 0);
  return problem;
}

TEST(Bounds, NoPublishedScheduleBeatsThem) {
  Random random(9);
  for (const Entry &entry : catalogue())
    for (int n = 0; n < 150; ++n) {
      Problem problem =
          published(random, entry, static_cast<int32_t>(pick(random, 1, 7)), static_cast<int32_t>(pick(random, 1, 20)));
      if (!check(entry, problem, {}).empty())
        continue;
      const Words words = wordsOf(entry, problem, {});
      ASSERT_EQ(verify(problem, words), "") << entry.name;
      const Evaluation result = evaluate(problem, words);
      for (const Bytes limit : {Bytes(0), limitFor(problem, result.peak)}) {
        problem.memoryLimit = limit;
        EXPECT_LE(lowerBounds(problem).makespan, result.makespan) << entry.name;
        EXPECT_LE(lowerBounds(problem).span, result.span) << entry.name;
      }
    }
}

TEST(Bounds, GPipeIsOptimalWithAFusedBackward) {
  for (int32_t p : {1, 2, 5, 8, 32})
    for (int32_t m : {1, 3, 8, 64})
      for (Time c : {0, 3, 100}) {
        const Problem problem = uniform(p, m, 10, 11, 8, c);
        EXPECT_EQ(lowerBounds(problem).makespan, evaluate(problem, wordsOf("gpipe", problem)).makespan);
      }
}

TEST(Bounds, OneFOneBIsOptimalWithAFusedBackwardAndFreeLinks) {
  for (int32_t p : {1, 2, 5, 8, 32})
    for (int32_t m : {1, 3, 8, 64}) {
      const Problem problem = uniform(p, m, 10, 11, 8);
      EXPECT_EQ(lowerBounds(problem).makespan, evaluate(problem, wordsOf("1f1b", problem)).makespan);
    }
}

TEST(Bounds, WarmUpLawHoldsInAnyPlacement) {
  // No bubble needs p activations on the rank of stage 0 (F = B = W): with fewer, p - M forwards' time is idle.
  const int32_t p = 6, m = 30;
  Problem problem = uniform(p, m, 2, 2, 2, 0, BackwardMode::Split);
  problem.stages.resize(2 * p, problem.stages[0]);
  for (Stage &stage : problem.stages)
    stage.forward = stage.backwardInput = stage.backwardWeight = 1;
  problem.rankOf.clear();
  for (int32_t s = 0; s < 2 * p; ++s)
    problem.rankOf.push_back(s < p ? s : 2 * p - 1 - s);
  for (int32_t chunks = 2; chunks <= 2 * p; ++chunks) {
    problem.memoryLimit = chunks;
    EXPECT_GE(lowerBounds(problem).span, 6 * m + 2 * p - chunks);
    // V placement: rank p-1 holds stages p-1 and p, so half a pipeline's more (in chunk times).
    EXPECT_GE(lowerBounds(problem).makespan, 6 * m + p - 1 + std::max(0, 2 * p - chunks));
  }
}

/// p ranks, v chunks each of cost 1, in a loop or there and back; a chunk holds two units, of which B and W free one
/// each.
Problem chunked(int32_t p, int32_t m, int32_t v, bool back, int32_t chunks) {
  Problem problem = uniform(p * v, m, 1, 1, 1, 0, BackwardMode::Split);
  problem.ranks = p;
  problem.rankOf = placed(p, p * v, back);
  for (Stage &stage : problem.stages)
    stage.context = 1;
  problem.memoryLimit = 2 * chunks;
  return problem;
}

TEST(Bounds, WhatMemoryLeavesIdleAtBothEndsAddsUp) {
  // Controllable Memory, appendix: two chunks there and back, K of them held, take 6m + 6p - 3K - 1 at least.
  for (int32_t p : {4, 6, 8, 16})
    for (int32_t m : {2 * p, 4 * p}) {
      const Problem problem = chunked(p, m, 2, true, p + 2);
      EXPECT_EQ(lowerBounds(problem).makespan, 6 * m + 6 * p - 3 * (p + 2) - 1) << p;
      // From rank 0's first forward to its last W: all but the last W of another rank.
      EXPECT_GE(lowerBounds(problem).span, 6 * m + 6 * p - 3 * (p + 2) - 2) << p;
    }
}

TEST(Bounds, FullMemoryIsIdleUntilTheFirstComesBack) {
  // Both chunks of a microbatch on the last rank of two fill it, and so two slots of it are idle in each.
  for (int32_t m : {4, 9})
    EXPECT_GE(lowerBounds(chunked(2, m, 2, true, 2)).makespan, 8 * m);
}

TEST(Bounds, AMicrobatchWaitsForBothOfAnothersReturns) {
  // In a loop of four ranks rank 0 holds two microbatches whole. G(i) waits for W of the first stage of i - 2: two
  // chunk times more than from G to B of its own, the way down (8 slots there and back, 4 more, B and W).
  const Problem problem = chunked(4, 20, 2, false, 4);
  const Bounded more = lowerBounds(problem), less = lowerBounds(chunked(4, 18, 2, false, 4));
  EXPECT_GE(more.makespan - less.makespan, 8 + 4 + 1);
}

TEST(Bounds, PricesProveMoreThanAreaAndWindowsApart) {
  // Rank 0 of a loop of 16 holds 24 of both its stages. They fill only when its first microbatches are back for their
  // second stage, and by then the backwards behind them are no longer all in time: 7 % beyond what either shows.
  Problem problem = chunked(16, 64, 2, false, 24);
  problem.link.latency = 2;
  for (Stage &stage : problem.stages) {
    stage.forward = 3;
    stage.backwardInput = 4;
    stage.backwardWeight = 2;
  }
  EXPECT_GE(lowerBounds(problem).makespan, 1570);
  EXPECT_GE(lowerBounds(problem).span, 1570);
}

TEST(Bounds, TheWordsOfTheFirstRankOfALoopAreOptimal) {
  // Four ranks, two microbatches held whole: as an exhaustive search of all ranks finds. Memory alone lets two start
  // every 13, but then passes of rank 0 fall on each other wherever the second starts: it takes 14.
  EXPECT_EQ(lowerBounds(chunked(4, 8, 2, false, 4)).makespan, 63);
  EXPECT_EQ(lowerBounds(chunked(4, 16, 2, false, 4)).makespan, 63 + 4 * 14);
}

TEST(Packing, TakesTheMostAndPricesIt) {
  bounds::Packing packing(3); // of bins 0 and 1 each thing takes one and half the other; of bin 2 nothing much
  packing.add({1, 0.5, 0.1});
  packing.add({0.5, 1, 0.1});
  packing.solve(10);
  EXPECT_NEAR(packing.taken(), 4.0 / 3, 1e-9);
  EXPECT_NEAR(packing.prices()[0], 2.0 / 3, 1e-9);
  EXPECT_NEAR(packing.prices()[1], 2.0 / 3, 1e-9);
  EXPECT_NEAR(packing.prices()[2], 0, 1e-9);
  packing.add({0.25, 0.25, 0.8}); // from there on: it is better than the others as long as bin 2 has room
  packing.solve(10);
  EXPECT_NEAR(packing.taken(), 48.0 / 23, 1e-9);
}

TEST(Bounds, NoGoodOrderOfSeveralStagesARankBeatsThem) {
  Random random(15);
  for (int n = 0; n < 300; ++n) {
    const auto p = static_cast<int32_t>(pick(random, 1, 4)), v = static_cast<int32_t>(pick(random, 2, n % 2 ? 2 : 3));
    Problem problem = chunked(p, static_cast<int32_t>(pick(random, 2, 9)), v, pick(random, 0, 1) == 1, 1);
    if (n % 3 == 0)
      std::shuffle(problem.rankOf.begin(), problem.rankOf.end(), random);
    problem.backward = n % 5 == 0 ? BackwardMode::Fused : BackwardMode::Split;
    problem.link.latency = pick(random, 0, 1) * pick(random, 0, 5);
    const Stage any = {.forward = pick(random, 1, 6),
                       .backwardInput = pick(random, 1, 6),
                       .backwardWeight = pick(random, 0, 6),
                       .backward = pick(random, 1, 9),
                       .activation = pick(random, 0, 3),
                       .context = pick(random, 1, 3)};
    for (Stage &stage : problem.stages) {
      stage = any;
      if (n % 4 == 0) {
        stage.forward = pick(random, 0, 6);
        stage.activation = pick(random, 0, 3);
      }
    }
    problem.memoryLimit = leastLimit(problem) + pick(random, 0, 4 * p) * pick(random, 0, 2);
    const Bounded bounded = lowerBounds(problem);
    for (const Objective objective : {Objective::Makespan, Objective::Span}) {
      const std::optional<Solution> solution = solve(problem, {.objective = objective, .effort = 2, .buffers = 1});
      ASSERT_TRUE(solution);
      const Evaluation evaluation = evaluate(problem, solution->words);
      EXPECT_LE(bounded.makespan, evaluation.makespan) << n << " " << int(bounded.makespanArgument);
      EXPECT_LE(bounded.span, evaluation.span) << n << " " << int(bounded.spanArgument);
    }
  }
}

TEST(Bounds, StandsForProblemsAtTheLimits) {
  // Half of the longest step is work, half transfers; together with the way there and back it is nearly one.
  Problem problem = uniform(4, 3, 0, 0, 0, limits::kTime / 24, BackwardMode::Split);
  for (Stage &stage : problem.stages) {
    stage.forward = stage.backwardInput = stage.backwardWeight = limits::kTime / 18;
    stage.activation = stage.context = limits::kBytes;
  }
  for (Bytes limit : {Bytes(0), Bytes(1), limits::kBytes}) {
    problem.memoryLimit = limit;
    ASSERT_EQ(check(problem), "");
    EXPECT_GT(lowerBounds(problem).makespan, limits::kTime / 10 * 9);
  }
}

TEST(Bounds, StandsForManyLargeStagesOfARank) {
  Problem problem = chunked(2, 3, 16, true, 1);
  for (Stage &stage : problem.stages)
    stage.activation = stage.context = limits::kBytes;
  problem.memoryLimit = limits::kBytes; // which fits no order
  ASSERT_EQ(check(problem), "");
  EXPECT_GE(lowerBounds(problem).makespan, 3 * 16 * 3);
}

TEST(Bounds, TakesSizesOfZero) {
  Problem problem = uniform(3, 9, 4, 5, 6, 1, BackwardMode::Split);
  problem.memoryLimit = 2;
  for (auto [activation, context] : {std::pair<Bytes, Bytes>{0, 0}, {0, 1}, {1, 0}}) {
    for (Stage &stage : problem.stages) {
      stage.activation = activation;
      stage.context = context;
    }
    problem.stages[1].activation = 0;
    EXPECT_GE(lowerBounds(problem).span, 9 * 15);
  }
}

TEST(Bounds, MicrobatchesThatPassEachOtherWait) {
  // Proven optimal by the solver; the chain of memory alone says 75, 74.7 of it without rounding.
  Problem problem = uniform(4, 16, 1000, 1000, 1000, 0, BackwardMode::Split);
  for (Stage &stage : problem.stages)
    stage.activation = stage.context = 1;
  problem.memoryLimit = 4;
  EXPECT_EQ(lowerBounds(problem).makespan, 81'000);
  // Transfers give room to pass: 2/3/1 and 0.1, K = 3. The optimum is 134.4, the chain alone says 129.6.
  problem = uniform(4, 16, 20, 30, 10, 1, BackwardMode::Split);
  for (Stage &stage : problem.stages)
    stage.activation = stage.context = 1;
  problem.memoryLimit = 6;
  EXPECT_GE(lowerBounds(problem).makespan, 1336);
  EXPECT_LE(lowerBounds(problem).makespan, 1344);
  // Where W takes long, the work between two returns counts too: 32 x 2/3/3, K = 3, takes 289 at most.
  problem = uniform(4, 32, 2, 3, 3, 0, BackwardMode::Split);
  for (Stage &stage : problem.stages)
    stage.activation = stage.context = 1;
  problem.memoryLimit = 6;
  EXPECT_GE(lowerBounds(problem).makespan, 287);
  EXPECT_LE(lowerBounds(problem).makespan, 289);
}

TEST(Bounds, NoneExceedsAProvenOptimum) {
  const std::vector<Optimum> optima = readOptima();
  ASSERT_EQ(optima.size(), 230u);
  int exact = 0;
  for (const Optimum &each : optima) {
    const Bounded bounded = lowerBounds(each.problem);
    const Time bound = each.span ? bounded.span : bounded.makespan;
    EXPECT_LE(bound, each.optimum) << each.row;
    exact += bound == each.optimum;
  }
  EXPECT_GE(exact, 214); // of 230
}

} // namespace
} // namespace pipec::schedule::test
