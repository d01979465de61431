// When planning anew is due.
#include "runtime/adapt/Changes.h"

#include <gtest/gtest.h>

using namespace pipec;
using adapt::Conditions;

namespace {

constexpr adapt::Time kSecond = 1'000'000'000'000;

Conditions measured(int64_t bandwidth, int64_t percent = 100) {
  return {{{{0, 1}, {1'000'000, bandwidth}}}, {{0, percent}}};
}

TEST(Rounds, BeginOnceSomethingWasMeasured) {
  const adapt::Rounds rounds(10 * kSecond);
  EXPECT_FALSE(rounds.due(100 * kSecond, {}));
  EXPECT_TRUE(rounds.due(0, measured(1000)));
}

TEST(Rounds, ComeNowAndThenAndSoonerWhereSomethingHasChanged) {
  adapt::Rounds rounds(10 * kSecond);
  rounds.begin(0, measured(1000));
  EXPECT_FALSE(rounds.due(20 * kSecond, measured(1))); // one is under way
  rounds.end(kSecond, 0);
  EXPECT_FALSE(rounds.due(9 * kSecond, measured(1000)));
  EXPECT_TRUE(rounds.due(10 * kSecond, measured(1000)));
  EXPECT_FALSE(rounds.due(2 * kSecond, measured(500))); // two seconds of rest
  EXPECT_TRUE(rounds.due(3 * kSecond, measured(500)));
}

TEST(Rounds, TakeAFifthOfAProcessorAtMost) {
  adapt::Rounds rounds(100 * kSecond);
  rounds.begin(0, measured(1000));
  rounds.end(5 * kSecond, 5 * kSecond);
  EXPECT_FALSE(rounds.due(24 * kSecond, measured(500)));
  EXPECT_TRUE(rounds.due(25 * kSecond, measured(500)));
}

TEST(Rounds, AChangeIsMoreThanATwentieth) {
  EXPECT_FALSE(differ(measured(1000), measured(1000)));
  EXPECT_FALSE(differ(measured(1000), measured(960)));
  EXPECT_TRUE(differ(measured(1000), measured(940)));
  EXPECT_TRUE(differ(measured(1000), measured(0))); // unlimited
  EXPECT_FALSE(differ(measured(1000, 100), measured(1000, 104)));
  EXPECT_TRUE(differ(measured(1000, 100), measured(1000, 130)));
  Conditions later = measured(1000);
  later.links[{0, 1}].latency *= 2;
  EXPECT_TRUE(differ(measured(1000), later));
  Conditions more = measured(1000);
  more.links[{1, 0}] = {};
  EXPECT_TRUE(differ(measured(1000), more));
  EXPECT_TRUE(differ(more, measured(1000)));
  more = measured(1000);
  more.percent = {{1, 100}};
  EXPECT_TRUE(differ(measured(1000), more));
}

TEST(Rounds, ConditionsAreWhatIsEstimated) {
  adapt::StepReport report;
  adapt::Slice &slice = report.slices.emplace_back(adapt::Slice{0, kSecond, {}, {}});
  slice.links[{0, 1}].add(kSecond / 10 + 5, 5, 1'000'000);
  slice.ranks[1].add(130, 100, 0);
  adapt::Estimator estimator;
  EXPECT_TRUE(conditionsOf(estimator).empty());
  estimator.take(report);
  const Conditions made = conditionsOf(estimator);
  EXPECT_EQ(made.links.at({0, 1}).latency, 5);
  EXPECT_EQ(made.links.at({0, 1}).bandwidth, 10'000'000);
  EXPECT_EQ(made.percent, (std::map<int32_t, int64_t>{{1, 130}}));
}

} // namespace
