// A load that repeats is found, and said before it comes; how long what is the best stays so.
#include "runtime/adapt/Phase.h"

#include "runtime/adapt/Policy.h"
#include "runtime/adapt/Regimes.h"

#include <gtest/gtest.h>

#include <random>

using namespace pipec;
using adapt::Time;

namespace {

constexpr Time kSecond = 1'000'000'000'000, kMs = kSecond / 1000;
constexpr plan::Bytes kMB = 1'000'000;
const std::pair<int32_t, int32_t> kLink{0, 1};

/// Steps of a second, of which the test says whether a moment is loaded: ten times as long for a MB.
template <typename Loaded> adapt::Phase phaseOf(int steps, const Loaded &loaded) {
  adapt::Phase phase;
  for (int step = 0; step != steps; ++step) {
    adapt::StepReport report;
    for (int s = 0; s != adapt::kSlices; ++s) {
      const Time begin = step * kSecond + kSecond * s / adapt::kSlices;
      adapt::Slice &slice = report.slices.emplace_back(adapt::Slice{begin, begin + kSecond / adapt::kSlices, {}, {}});
      slice.links[kLink].add(loaded(begin) ? 40 * kMs : 4 * kMs, 0, kMB);
    }
    phase.take(report);
  }
  return phase;
}

TEST(Phase, ALoadThatRepeatsIsExpected) {
  const auto loaded = [](Time at) { return at % (10 * kSecond) >= 6 * kSecond; };
  const adapt::Phase phase = phaseOf(34, loaded); // four seconds into a period
  EXPECT_NEAR(double(phase.period()), 10.0 * kSecond, double(kSecond) / adapt::kSlices);
  const std::optional<simulate::Scenario> expected = phase.expected();
  ASSERT_TRUE(expected);
  // Quiet for two seconds more, then loaded for four, then quiet.
  for (int tenths = 0; tenths != 90; ++tenths) {
    const Time at = tenths * kSecond / 10;
    if (std::abs(at - 2 * kSecond) < kSecond / 4 || std::abs(at - 6 * kSecond) < kSecond / 4)
      continue; // about the changes themselves, a slice either way
    const auto &stretches = expected->links.at(kLink).stretches;
    const auto after =
        std::find_if(stretches.begin() + 1, stretches.end(), [&](const auto &each) { return each.at > at; });
    EXPECT_EQ(after[-1].bandwidth, loaded(34 * kSecond + at) ? 25 * kMB : 250 * kMB) << tenths;
  }
}

TEST(Phase, ThereIsNoneWhereNothingRepeats) {
  EXPECT_FALSE(phaseOf(34, [](Time) { return true; }).expected());
  std::mt19937 random(3);
  EXPECT_FALSE(phaseOf(34, [&](Time) { return random() % 2 == 0; }).expected());
  const auto once = [](Time at) { return at > 20 * kSecond; };
  EXPECT_FALSE(phaseOf(30, once).expected());
}

TEST(Phase, WhatWasSeenOnceIsNoPeriod) {
  const auto loaded = [](Time at) { return at % (10 * kSecond) >= 6 * kSecond; };
  EXPECT_EQ(phaseOf(7, loaded).period(), 0);
  EXPECT_EQ(phaseOf(12, loaded).period(), 0);
}

TEST(Policy, EachPredictsFromWhatItLooksAt) {
  const adapt::History history{{{10, 20}, {11, 21}, {12, 22}, {}, 0}, {{30, 20}, {13, 23}, {14, 24}, {5, 6}, 0}};
  std::map<std::string, adapt::Times> predicted;
  for (const adapt::Policy &each : adapt::policiesFor(2))
    predicted[each.name] = each.predict(history);
  EXPECT_EQ(predicted.at("last 1"), (adapt::Times{30, 20}));
  EXPECT_EQ(predicted.at("last 2"), (adapt::Times{20, 20}));
  EXPECT_EQ(predicted.at("last 32"), (adapt::Times{20, 20})); // of as many as there are
  EXPECT_EQ(predicted.at("stay 1"), (adapt::Times{20, 20}));
  EXPECT_EQ(predicted.at("now (half)"), (adapt::Times{13, 23}));
  EXPECT_EQ(predicted.at("now (eighth)"), (adapt::Times{14, 24}));
  EXPECT_EQ(predicted.at("phase"), (adapt::Times{5, 6}));
  EXPECT_EQ(adapt::leastOf({7, 5, 5}), 1u);
}

TEST(Regimes, TheMeanRemainingLifeOfThoseOfThatAge) {
  adapt::Regimes regimes;
  EXPECT_EQ(regimes.expect(0), 16); // of the first ones a while
  for (int age = 2; age <= 40; ++age)
    EXPECT_EQ(regimes.expect(0), std::max(age, 16));
  for (int age = 1; age <= 4; ++age)
    EXPECT_EQ(regimes.expect(1), 40 - age);   // one has lasted 40
  EXPECT_EQ(regimes.expect(0), (39 + 3) / 2); // and another 4
  for (int age = 2; age <= 3; ++age)
    EXPECT_EQ(regimes.expect(0), (40 - age + 4 - age) / 2);
  for (int age = 4; age <= 39; ++age)
    EXPECT_EQ(regimes.expect(0), 40 - age);
  EXPECT_EQ(regimes.expect(0), 40); // it outlives all: as long as it has lasted
}

TEST(Regimes, ASwapPaysOverItsDwell) {
  EXPECT_TRUE(adapt::pays(10, 16, 159));
  EXPECT_FALSE(adapt::pays(10, 16, 160));
  EXPECT_FALSE(adapt::pays(10, 1, 20));
  EXPECT_TRUE(adapt::pays(INT64_MAX / 2, 16, INT64_MAX));
}

} // namespace
