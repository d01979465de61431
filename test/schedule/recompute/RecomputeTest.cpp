// Choices of stages to recompute: bounds over all of them, the least limit of all, and the search among them.
#include "compiler/schedule/recompute/RecomputeSearch.h"

#include "compiler/schedule/bounds/Bounds.h"
#include "runtime/plan/Limits.h"
#include "test/schedule/Reference.h"
#include "test/schedule/Support.h"

#include <gtest/gtest.h>

namespace pipec::schedule::test {
namespace {

MayAgain mayOf(Random &random, const Problem &problem) {
  MayAgain may;
  for (int32_t s = 0; s != int32_t(problem.stages.size()); ++s)
    if (const Stage &stage = problem.stages[size_t(s)]; stage.activation > 0 && pick(random, 0, 4) != 0)
      may[s] = {pick(random, 0, stage.activation), pick(random, 0, 2) * stage.forward / 2};
  return may;
}

Stages anyOf(Random &random, const MayAgain &may) {
  Stages chosen;
  for (const auto &[stage, again] : may)
    if (pick(random, 0, 1) == 0)
      chosen.push_back(stage);
  return chosen;
}

TEST(Recompute, NoOrderOfAnyChoiceBeatsTheBoundOfAll) {
  Random random(31);
  int many = 0;
  for (int n = 0; n < 600; ++n) {
    Problem problem = n % 2 == 0 ? randomProblem(random, 4, 6, 6) : randomProblem(random, 4, 10, 5);
    const MayAgain may = mayOf(random, problem);
    many += may.size() > 6;
    for (int round = 0; round != 3; ++round) {
      const Problem own = recomputed(problem, may, anyOf(random, may));
      ASSERT_EQ(check(own), "");
      Words words = withRecompute(own, randomWords(random, own));
      hoistSome(random, words);
      const Reference reference(own, words);
      Bytes limit = 0;
      for (int32_t r = 0; r < problem.ranks; ++r)
        limit = std::max(limit, reference.peaks()[size_t(r)] + Bytes(heldAlways(problem, 1)[size_t(r)]));
      for (const Bytes given : {Bytes(0), limit}) {
        problem.memoryLimit = given;
        for (const std::vector<Problem> &list : casesOf(problem, may)) {
          ASSERT_FALSE(list.empty());
          Time makespan = limits::kTime, span = limits::kTime;
          for (const Problem &each : list) {
            const Bounded bounds = lowerBounds(each);
            makespan = std::min(makespan, bounds.makespan);
            span = std::min(span, bounds.span);
          }
          EXPECT_LE(makespan, reference.makespan()) << n;
          EXPECT_LE(span, reference.span()) << n;
        }
        if (may.size() <= 6 && given != 0) {
          EXPECT_LE(leastLimit(problem, may), given);
        }
      }
      problem.memoryLimit = 0;
    }
  }
  EXPECT_GT(many, 30);
}

TEST(Recompute, TheLeastLimitIsOfTheChoiceThatNeedsLeast) {
  Random random(32);
  for (int n = 0; n < 500; ++n) {
    const Problem problem = randomProblem(random, 4, 9, 3);
    const MayAgain may = mayOf(random, problem);
    Bytes least = limits::kBytes;
    eachChoice(may,
               [&](const Stages &chosen) { least = std::min(least, leastLimit(recomputed(problem, may, chosen))); });
    if (may.size() <= 6)
      EXPECT_EQ(leastLimit(problem, may), least);
    else // of some choices by rank
      EXPECT_GE(leastLimit(problem, may), least);
  }
}

/// What a choice costs: so many bytes are saved at one microbatch after another, and so much time is taken.
TrialCost costOf(const MayAgain &may, const std::vector<Bytes> &saves, Bytes needed, const Stages &chosen) {
  Bytes saved = 0;
  Time time = 100;
  for (const int32_t stage : chosen) {
    saved += saves[size_t(stage)];
    time += may.at(stage).recompute;
  }
  return {std::max<Bytes>(needed - saved, 0), time, 0};
}

TEST(Recompute, TheSearchMissesNoneOfFewAndFindsGoodOnesOfMany) {
  Random random(33);
  for (const int32_t count : {1, 4, 8, 24, 64}) {
    MayAgain may;
    std::vector<Bytes> saves;
    Bytes all = 0;
    for (int32_t s = 0; s != count; ++s) {
      may[s] = {0, pick(random, 1, 20)};
      saves.push_back(pick(random, 1, 20));
      all += saves.back();
    }
    const Bytes needed = all * 2 / 3;
    const auto judge = [&](const Stages &chosen) { return std::optional(costOf(may, saves, needed, chosen)); };
    Problem problem = uniform(count, 4, 1, 1, 1);
    RecomputeSearch search(may, usualChoices(problem, may), judge, 2000);
    search.run();
    const TrialCost found = search.judged().begin()->first;
    EXPECT_EQ(found.excess, 0);
    EXPECT_EQ(search.looksAtAll(), count <= 8);
    EXPECT_LE(search.judged().size(), count <= 8 ? size_t(1) << count : size_t(2000) + 2);
    if (count <= 8) {
      TrialCost least{limits::kBytes, 0, 0};
      eachChoice(may, [&](const Stages &chosen) { least = std::min(least, costOf(may, saves, needed, chosen)); });
      EXPECT_EQ(found, least);
    } else {
      Stages longest; // all, less the longest that need not be
      for (const auto &[stage, again] : may)
        longest.push_back(stage);
      EXPECT_LT(found.time, costOf(may, saves, needed, longest).time * 9 / 10);
    }
  }
}

TEST(Recompute, WhereNothingNeedsItNothingIsRunAgain) {
  const Problem problem = uniform(20, 4, 1, 1, 1);
  MayAgain may;
  for (int32_t s = 0; s != 20; ++s)
    may[s] = {0, 1};
  int asked = 0;
  RecomputeSearch search(
      may, usualChoices(problem, may),
      [&](const Stages &chosen) { return ++asked, std::optional(TrialCost{0, Time(chosen.size()), 0}); }, 2000);
  search.run();
  EXPECT_TRUE(search.judged().begin()->second.empty());
  EXPECT_LE(asked, 3);
}

} // namespace
} // namespace pipec::schedule::test
