// The decision maker in virtual time, beside each candidate fixed and the oracle.
#include "test/Rounds.h"
#include "test/adapt/Judged.h"

#include <cmath>
#include <random>

using namespace pipec;
using simulate::Scenario;
using test::Judged;
using test::Time;

namespace {

constexpr Time kMs = 1'000'000'000;
constexpr int64_t kGB = 1'000'000'000;

Judged judge(const Scenario &network, int64_t steps) { return test::judge(test::threeVariants(), network, steps); }

constexpr int64_t kQuiet = 11 * kGB;
constexpr Time kLatency = 60'000'000, kStep = 3200 * kMs; // about

/// Quiet and loaded by turns, over and over.
Scenario alternating(Time quiet, Time loaded, int64_t bandwidth) {
  Scenario network;
  network.others = Scenario::Link{{{0, kQuiet, kLatency}, {quiet, bandwidth, kLatency}}, quiet + loaded};
  return network;
}

TEST(Virtual, NothingIsSwappedOnAQuietNetworkWhoseBestVariantRuns) {
  const Judged judged = judge({}, 60);
  EXPECT_EQ(judged.own.switches(), 0);
  EXPECT_EQ(judged.own.total, judged.fixed);
}

TEST(Virtual, OneSlowLinkIsFoundAtOnce) {
  Scenario network;
  for (const auto &[from, to] : {std::pair(1, 2), std::pair(2, 1)})
    network.links[{from, to}] = {{0, kGB / 2, kLatency}};
  const Judged judged = judge(network, 100);
  EXPECT_EQ(judged.own.switches(), 1);
  EXPECT_EQ(judged.own.ran[1], 1u);
  EXPECT_LT(judged.regret(), 0.005);
}

TEST(Virtual, ASlowRankIsInEveryForecast) {
  Scenario network;
  network.slow[2] = {{20 * kStep, simulate::kNever, 130}};
  const Judged judged = judge(network, 60);
  EXPECT_LT(judged.regret(), 0.005);
}

/// Steps of 1 to 40 in each state: never much behind the best that is fixed, and near the oracle in the mean. Every one
/// of them, for 300 steps, with PIPEC_SOAK.
TEST(Virtual, NoPeriodIsItsUndoing) {
  if (test::kSanitized)
    GTEST_SKIP() << "means of many runs, which do the same in each";
  const bool soaks = test::soaks();
  double regret = 0, most = 0, behind = -1, ahead = 0;
  int count = 0, long_ = 0;
  for (const int64_t bandwidth : {kGB / 2, kGB})
    for (int64_t steps = 1; steps <= 40; steps += soaks ? 1 : bandwidth == kGB ? 8 : steps < 8 ? 1 : 8) {
      const Judged judged = judge(alternating(steps * kStep, steps * kStep, bandwidth), soaks ? 300 : 160);
      EXPECT_LT(judged.regret(), 0.02) << bandwidth << " " << steps;
      EXPECT_LT(judged.behindFixed(), 0.01) << bandwidth << " " << steps;
      regret += judged.regret();
      most = std::max(most, judged.regret());
      behind = std::max(behind, judged.behindFixed());
      ++count;
      if (steps >= 5 && bandwidth == kGB / 2) {
        ahead -= judged.behindFixed();
        ++long_;
      }
    }
  printf("mean regret %.2f %%, most %.2f %%; at most %.2f %% behind the best fixed, and %.2f %% ahead of it where "
         "loads last "
         "5 steps and more\n",
         100 * regret / count, 100 * most, 100 * behind, 100 * ahead / long_);
  EXPECT_LT(regret / count, 0.009);
  EXPECT_GT(ahead / long_, 0.01);
}

/// Loads that come and go at random, two steps long in the mean: nothing to foresee, so little to lose.
TEST(Virtual, RandomDwellsCostLittle) {
  std::mt19937_64 random(5);
  for (int round = 0; round != test::rounds(4); ++round) {
    Scenario network;
    Scenario::Link link{{0, kQuiet, kLatency}};
    for (Time at = 0; at < 200 * kStep;) {
      at += Time(-std::log(double(random() % 999'999 + 1) / 1e6) * 2.0 * double(kStep)) + 1;
      link.stretches.push_back({at, link.stretches.back().bandwidth == kQuiet ? kGB / 2 : kQuiet, kLatency});
    }
    network.others = link;
    EXPECT_LT(judge(network, 160).behindFixed(), 0.01) << round;
  }
}

/// What a network does later changes no decision before.
TEST(Virtual, DecisionsKnowNothingOfWhatComes) {
  const std::vector<const plan::Variant *> candidates = test::candidatesOf(test::threeVariants());
  const Time until = 20 * kStep;
  Scenario one = alternating(3 * kStep, 2 * kStep, kGB / 2), other;
  Scenario::Link link{{0, kQuiet, kLatency}};
  for (Time at = 0; at + 3 * kStep < until; at += 5 * kStep) {
    if (at != 0)
      link.stretches.push_back({at, kQuiet, kLatency});
    link.stretches.push_back({at + 3 * kStep, kGB / 2, kLatency});
  }
  link.stretches.push_back({until, kGB / 20, kLatency}); // and then something else
  other.others = link;
  adapt::Course first, second;
  std::vector<adapt::Decision> its, others;
  ASSERT_TRUE(adapt::adaptive(candidates, one, 40, first, its).ok());
  ASSERT_TRUE(adapt::adaptive(candidates, other, 40, second, others).ok());
  Time now = 0;
  size_t same = 0;
  for (; same != 40 && (now += first.steps[same]) < until - kStep; ++same) {
    EXPECT_EQ(its[same].to, others[same].to) << same;
    EXPECT_EQ(its[same].predicted, others[same].predicted) << same;
  }
  EXPECT_GT(same, 12u);
  // The same input gives the same decisions.
  adapt::Course again;
  std::vector<adapt::Decision> repeated;
  ASSERT_TRUE(adapt::adaptive(candidates, one, 40, again, repeated).ok());
  EXPECT_EQ(first.ran, again.ran);
  EXPECT_EQ(first.total, again.total);
}

/// On a network that stands still, what is estimated is what it is, and what is predicted is what happens.
TEST(Virtual, EstimatesAndPredictionsAreRightWhereNothingChanges) {
  const std::vector<const plan::Variant *> candidates = test::candidatesOf(test::threeVariants());
  Scenario network;
  network.others = Scenario::Link{{0, 3 * kGB, kLatency}};
  network.links[{0, 1}] = {{0, kGB, kLatency}};
  network.slow[3] = {{0, simulate::kNever, 120}};
  adapt::Course course;
  std::vector<adapt::Decision> decisions;
  adapt::Estimator estimates;
  ASSERT_TRUE(adapt::adaptive(candidates, network, 30, course, decisions, &estimates).ok());
  for (const auto &[link, own] : estimates.links()) {
    const int64_t bandwidth = link == std::pair(0, 1) ? kGB : 3 * kGB;
    EXPECT_NEAR(double(own.bandwidth), double(bandwidth), 0.05 * double(bandwidth)) << link.first;
    EXPECT_EQ(own.latency, kLatency);
    EXPECT_GT(own.samples, 100);
  }
  EXPECT_EQ(estimates.links().size(), 6u);
  for (const auto &[rank, own] : estimates.ranks())
    EXPECT_NEAR(double(own.percent), rank == 3 ? 120 : 100, 2) << rank;
  const adapt::Decision &last = decisions.back();
  EXPECT_NEAR(double(last.predicted[last.to]), double(course.steps.back()), 0.01 * double(course.steps.back()));
}

/// Plans are made anew when the network changes, and now and then; of too many those that came first go, and neither
/// those of the run's own plan nor the one that runs.
TEST(Virtual, PlansComeAndTheOldestGo) {
  const std::vector<const plan::Variant *> own = test::candidatesOf(test::threeVariants());
  std::vector<Time> begun;
  std::vector<size_t> present;
  adapt::Replanner replanner;
  replanner.every = 20 * kStep;
  replanner.takes = kStep / 2;
  const Time quiet = 7 * kStep, loaded = 5 * kStep;
  replanner.plan = [&](Time at, const adapt::Estimator &estimates, const std::vector<const plan::Variant *> &now) {
    begun.push_back(at);
    present.push_back(now.size());
    EXPECT_EQ(estimates.links().size(), 6u);
    EXPECT_TRUE(std::equal(own.begin(), own.end(), now.begin()));
    return std::vector<const plan::Variant *>(4, own[begun.size() % 3]);
  };
  adapt::Course course;
  std::vector<adapt::Decision> decisions;
  ASSERT_TRUE(
      adapt::adaptive(own, alternating(quiet, loaded, kGB / 2), 80, course, decisions, nullptr, &replanner).ok());
  ASSERT_GE(begun.size(), 10u);
  EXPECT_LE(begun[0], 2 * kStep); // as soon as there are estimates
  for (size_t i = 1; i != begun.size(); ++i) {
    EXPECT_GE(begun[i], begun[i - 1] + replanner.takes);
    EXPECT_LE(begun[i], begun[i - 1] + replanner.every);
  }
  for (Time change = quiet; change < begun.back() - 2 * kStep; change += quiet + loaded) {
    const auto next = std::lower_bound(begun.begin(), begun.end(), change);
    EXPECT_LE(*next, change + 2 * kStep); // it has slowed down in the step before
  }
  EXPECT_EQ(present[0], 3u);
  EXPECT_EQ(present[1], 7u);
  EXPECT_EQ(present.back(), adapt::kMostCandidates);
  for (size_t i = 0; i != decisions.size(); ++i) {
    const adapt::Decision &each = decisions[i];
    const auto known = [](Time time) { return time != 0; };
    EXPECT_LE(std::count_if(each.predicted.begin(), each.predicted.end(), known), ptrdiff_t(adapt::kMostCandidates));
    EXPECT_NE(each.predicted[each.to], 0) << i; // it has not gone
    EXPECT_EQ(each.from, course.ran[i]);
  }
}

} // namespace
