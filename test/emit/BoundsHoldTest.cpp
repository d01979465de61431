// A bound is held against every plan that it speaks of, and against no other.
#include "compiler/emit/BoundsHold.h"

#include <gtest/gtest.h>

namespace pipec::emit {
namespace {

using plan::LeastTime;

plan::Certificate certificateOf(plan::Time makespan, plan::Time span, plan::Time least, plan::Time leastSpan) {
  plan::Certificate made;
  made.makespan = makespan;
  made.span = span;
  made.lowerBound = LeastTime::proven(least);
  made.spanLowerBound = LeastTime::proven(leastSpan);
  return made;
}

schedule::Problem problemOf(bool thereAndBack) {
  schedule::Problem problem;
  problem.ranks = 2;
  problem.microbatches = 4;
  problem.backward = schedule::BackwardMode::Split;
  problem.stages.assign(4, {.forward = 1, .backwardInput = 1, .backwardWeight = 1, .backward = 2});
  problem.rankOf = schedule::placed(2, 4, thereAndBack);
  return problem;
}

TEST(BoundsHold, ABoundOverTheTimeOfItsOwnPlanIsFound) {
  const plan::Certificate good = certificateOf(10, 8, 10, 8), late = certificateOf(10, 8, 11, 8),
                          longer = certificateOf(10, 8, 10, 9);
  EXPECT_TRUE(checkBounds({{.name = "a", .certificate = &good}}).ok());
  const Status makespan = checkBounds({{.name = "a", .certificate = &late}});
  EXPECT_EQ(makespan.code, Code::Check);
  EXPECT_EQ(makespan.message, "internal: the bound of a, 11 ps, is not one: a has a makespan of 10 ps; please report "
                              "this spec");
  EXPECT_EQ(checkBounds({{.name = "a", .certificate = &longer}}).code, Code::Check);
}

TEST(BoundsHold, ABoundIsHeldAgainstTheOthersOfATable) {
  const plan::Certificate one = certificateOf(12, 12, 11, 11), other = certificateOf(10, 10, 10, 10);
  const schedule::Problem loop = problemOf(false), back = problemOf(true);
  const auto check = [&](const Claim &first, const Claim &second) { return checkBounds({first, second}).ok(); };
  EXPECT_FALSE(check({"auto", &one, &loop}, {"zb-h2", &other, &loop}));
  EXPECT_TRUE(check({"auto", &one, &loop}, {"v-half", &other, &back})) << "another placement";
  EXPECT_FALSE(check({.name = "auto", .certificate = &one, .problem = &loop, .ofAllPlacements = true},
                     {"v-half", &other, &back}));
}

TEST(BoundsHold, ABoundSpeaksOfTheSameWorkInNoMoreMemory) {
  const plan::Certificate any = certificateOf(1, 1, 0, 0);
  const schedule::Problem own = problemOf(false);
  const auto speaks = [&](auto change, bool back = false) {
    schedule::Problem other = own;
    change(other);
    const Claim one{"own", &any, &own}, its{"other", &any, &other};
    return back ? speaksOf(its, one) : speaksOf(one, its);
  };
  EXPECT_TRUE(speaks([](schedule::Problem &) {}));
  EXPECT_FALSE(speaks([](schedule::Problem &other) { other.microbatches = 5; }));
  EXPECT_FALSE(speaks([](schedule::Problem &other) { other.stages[1].forward = 2; }));
  EXPECT_FALSE(speaks([](schedule::Problem &other) { other.link.latency = 2; }));
  EXPECT_FALSE(speaks([](schedule::Problem &other) { other.slices = 2; }));
  EXPECT_FALSE(speaks([](schedule::Problem &other) { other.backwardGroup = 2; }));
  EXPECT_FALSE(speaks([](schedule::Problem &other) { other.backward = schedule::BackwardMode::Fused; }));
  schedule::Problem whole = own;
  whole.backward = schedule::BackwardMode::Fused;
  const Claim split{"split", &any, &own},
      asParts{.name = "auto", .certificate = &any, .problem = &whole, .wholeAsParts = true};
  EXPECT_TRUE(speaksOf(split, asParts) && speaksOf(asParts, split))
      << "a whole backward of auto takes what its parts take";
  const auto mixed = [](schedule::Problem &other) { other.mixed = true; };
  EXPECT_FALSE(speaks(mixed)) << "a whole backward may take less";
  EXPECT_TRUE(speaks(mixed, true)) << "of mixed orders some are split throughout";
  const auto limited = [](schedule::Problem &other) { other.memoryLimit = 9; };
  EXPECT_TRUE(speaks(limited));
  EXPECT_FALSE(speaks(limited, true)) << "what needs more memory may take less";
}

TEST(BoundsHold, AutoSpeaksOfEvenPortions) {
  PlanReport report;
  std::vector<BalanceRow> &rows = report.variants.emplace_back().balance.rows;
  rows.resize(3);
  for (size_t i = 0; i != rows.size(); ++i) {
    rows[i].name = std::vector{"auto", "even", "resize"}[i];
    rows[i].span = 10;
    rows[i].bound = LeastTime::proven(9);
  }
  rows[2].span = 9; // it leaves units out
  EXPECT_TRUE(checkBounds(report).ok());
  rows[0].bound = LeastTime::proven(10);
  EXPECT_TRUE(checkBounds(report).ok());
  rows[1].span = 9;
  EXPECT_EQ(checkBounds(report).code, Code::Check);
}

TEST(BoundsHold, ABoundAtAPlansOwnMemoryIsHeldAgainstThePlan) {
  PlanReport report;
  Report &own = report.variants.emplace_back();
  own.certificate = certificateOf(10, 8, 0, 0);
  own.atOwnMemory = {LeastTime::proven(10), LeastTime::proven(8)};
  EXPECT_TRUE(checkBounds(report).ok());
  own.atOwnMemory->span = LeastTime::proven(9);
  EXPECT_EQ(checkBounds(report).code, Code::Check);
}

} // namespace
} // namespace pipec::emit
