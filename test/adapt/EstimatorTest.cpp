// What is made of measurements: of a slice a bandwidth and a latency, of a step what held when.
#include "runtime/adapt/Estimator.h"

#include <gtest/gtest.h>

using namespace pipec;
using adapt::Time;
using simulate::Scenario;

namespace {

constexpr Time kMs = 1'000'000'000;
constexpr int64_t kMB = 1'000'000;
const std::pair<int32_t, int32_t> kLink{0, 1};

/// Slices of 100 ms, without measurements.
adapt::StepReport reportOf(Time begin) {
  adapt::StepReport report;
  for (int s = 0; s != adapt::kSlices; ++s)
    report.slices.push_back({begin + 100 * kMs * s, begin + 100 * kMs * (s + 1), {}, {}});
  return report;
}

TEST(Stretch, LatencyAndBandwidthPart) {
  adapt::Tally tally;
  tally.add(11 * kMs, kMs, kMB); // a MB in 10 ms behind a latency of 1 ms
  tally.add(23 * kMs, 3 * kMs, 2 * kMB);
  const Scenario::Stretch made = adapt::stretchOf(tally, 5);
  EXPECT_EQ(made.at, 5);
  EXPECT_EQ(made.bandwidth, 100 * kMB);
  EXPECT_EQ(made.latency, 2 * kMs);
}

TEST(Stretch, WhatTakesNoLongerThanItsLatencyIsNotLimited) {
  adapt::Tally empty, quick;
  empty.add(kMs, kMs, 0);
  quick.add(kMs, kMs, kMB);
  for (const adapt::Tally &each : {empty, quick}) {
    EXPECT_EQ(adapt::stretchOf(each, 0).bandwidth, 0);
    EXPECT_EQ(adapt::stretchOf(each, 0).latency, kMs);
  }
}

TEST(Estimator, SaysWhatTheLastMeasuredSliceSays) {
  adapt::StepReport report = reportOf(800 * kMs);
  report.slices[1].links[kLink].add(50 * kMs, 0, kMB);
  for (const Time took : {10 * kMs, 14 * kMs, 12 * kMs})
    report.slices[4].links[kLink].add(took, 0, kMB);
  adapt::Estimator estimator;
  estimator.take(report);
  const adapt::LinkEstimate own = estimator.links().at(kLink);
  EXPECT_EQ(own.bandwidth, 3 * kMB * 1000 / 36);
  EXPECT_EQ(own.samples, 4);
  EXPECT_EQ(own.spread, 4 * kMs);
  EXPECT_EQ(own.since, 1200 * kMs); // when that slice began
  // Where nothing is measured any more, what was known stays, with its age.
  estimator.take(reportOf(1600 * kMs));
  EXPECT_EQ(estimator.links().at(kLink).since, 1200 * kMs);
  EXPECT_EQ(estimator.links().at(kLink).samples, 4);
}

TEST(Estimator, ARanksPercentIsOfTheWholeStep) {
  adapt::StepReport report = reportOf(0);
  report.slices[0].ranks[2].add(13 * kMs, 10 * kMs, 0);
  report.slices[7].ranks[2].add(39 * kMs, 30 * kMs, 0);
  adapt::Estimator estimator;
  estimator.take(report);
  EXPECT_EQ(estimator.ranks().at(2).percent, 130);
  EXPECT_EQ(estimator.ranks().at(2).samples, 2);
  EXPECT_EQ(estimator.ranks().at(2).since, 0);
  EXPECT_EQ(estimator.lately(report, 1).slow.at(2).front().percent, 130);
  estimator.take(reportOf(800 * kMs));
  EXPECT_EQ(estimator.ranks().at(2).since, 0);
}

TEST(Estimator, KnowsWhatHeldWhen) {
  adapt::StepReport report = reportOf(0);
  report.slices[2].links[kLink].add(10 * kMs, 0, kMB);
  report.slices[5].links[kLink].add(100 * kMs, 0, kMB);
  adapt::Estimator estimator;
  estimator.take(report);
  const Scenario during = estimator.during(report);
  const Scenario::Link &link = during.links.at(kLink);
  ASSERT_EQ(link.stretches.size(), 2u);
  EXPECT_EQ(link.stretches[0].at, 0); // what was before the first transfer, nobody knows
  EXPECT_EQ(link.stretches[0].bandwidth, 100 * kMB);
  EXPECT_EQ(link.stretches[1].at, 500 * kMs);
  EXPECT_EQ(link.stretches[1].bandwidth, 10 * kMB);
  EXPECT_EQ(link.repeat, 800 * kMs);
  EXPECT_EQ(estimator.lately(report, 4).links.at(kLink).stretches.front().bandwidth, 10 * kMB);
  EXPECT_EQ(estimator.lately(report, 1).links.at(kLink).stretches.front().bandwidth, 10 * kMB); // as it was last
}

} // namespace
