// Lateness in buckets, step times by their definition, and reports on their way through the channel.
#include "runtime/launch/Report.h"
#include "runtime/launch/messages/Code.h"
#include "runtime/stage/synthetic/Pattern.h"

#include <gtest/gtest.h>

using namespace pipec;
using namespace pipec::runtime;

namespace {

constexpr plan::Time kMicrosecond = 1'000'000;

void begin(Recorder &recorder, const Label &label) {
  std::shared_ptr<const Round> round = single(label, {}, {});
  recorder.begin(round, *round->whole);
}

TEST(Lateness, QuantilesAreWithinABucket) {
  Lateness late;
  for (int64_t us = 1; us <= 1000; ++us)
    late.add(us * kMicrosecond);
  EXPECT_EQ(late.count(), 1000);
  EXPECT_NEAR(late.mean(), 500.5 * kMicrosecond, 1024); // counted in units of so many picoseconds
  EXPECT_NEAR(late.quantile(0.5), 500.0 * kMicrosecond, 0.04 * 500 * kMicrosecond);
  EXPECT_NEAR(late.quantile(0.99), 990.0 * kMicrosecond, 0.04 * 990 * kMicrosecond);
  EXPECT_EQ(late.max(), 1000 * kMicrosecond);
  EXPECT_LE(late.quantile(1), double(late.max()));
}

TEST(Lateness, ExtremesFit) {
  Lateness late;
  late.add(0);
  late.add(-5);
  EXPECT_EQ(late.quantile(0.5), 0);
  late.add(INT64_MAX);
  EXPECT_GT(late.quantile(1), 9e18);
  EXPECT_EQ(Lateness().quantile(0.5), 0);
}

TEST(Lateness, MergedAndSentItIsTheSame) {
  Lateness a, b;
  a.add(3 * kMicrosecond);
  b.add(700 * kMicrosecond);
  a.merge(b);
  Lateness c = Lateness::unpack(a.pack());
  EXPECT_EQ(c.count(), 2);
  EXPECT_EQ(c.pack(), a.pack());
  EXPECT_EQ(c.quantile(0.9), a.quantile(0.9));
}

TEST(Report, StepsGoFromLastEndToLastEndOnTheSlowestRank) {
  std::vector<std::vector<StepTimes>> ranks{{{0, 10}, {11, 25}}, {{4, 16}, {18, 29}}};
  EXPECT_EQ(stepTimes(ranks, 0, 2), (std::vector<plan::Time>{12, 15}));
}

TEST(Report, EvaluationsTakeNoTimeOfSteps) {
  RankReport report;
  report.steps = {{0, 10}, {30, 44}, {70, 81}};
  report.evaluations = {{1, 15}, {1, 5}, {2, 20}};
  RankReport heard;
  ASSERT_TRUE(fromMessage(toMessage(report), 0, heard));
  EXPECT_EQ(measuredSteps({heard}, 0, 3), (std::vector<plan::Time>{10, 14, 17}));
}

TEST(Report, SurvivesTheChannel) {
  plan::Operation op;
  op.kind = plan::Kind::Recv;
  op.of = plan::Payload::Backward;
  op.stage = 3;
  op.peer = 2;
  Recorder compute, transfer;
  transfer.place.rank = 1;
  transfer.queue = 5;
  transfer.trace = true;
  begin(transfer, {&op, 7, 0, 0});
  transfer.record(100, 150, 4);
  transfer.log(101, 150);
  compute.device = true;
  begin(compute, {&op, 7, 0, 0});
  compute.record(200, 260, 6);
  compute.settle();
  const messages::Encoded sent = messages::encode(toMessage(summarize({compute, transfer})));
  messages::Report heard;
  ASSERT_EQ(messages::decode(sent->bytes, heard), "");
  RankReport report;
  ASSERT_TRUE(fromMessage(heard, 1, report));
  ASSERT_EQ(report.steps.size(), 1u);
  EXPECT_EQ(report.steps[0].firstStart, 200); // the transfer does not count
  EXPECT_EQ(report.steps[0].lastEnd, 260);
  EXPECT_EQ(report.lateness.count(), 2);
  ASSERT_EQ(report.events.size(), 1u);
  const trace::Event &e = report.events[0];
  EXPECT_EQ(std::tie(e.rank, e.queue, e.kind, e.of, e.stage, e.peer, e.microbatch, e.start, e.end),
            std::make_tuple(1, 5u, plan::Kind::Recv, plan::Payload::Backward, 3, 2, int64_t(7), plan::Time(101),
                            plan::Time(150)));
}

TEST(Recorder, KeepsALongLogInOrder) {
  plan::Operation op;
  Recorder recorder;
  recorder.trace = true;
  constexpr int64_t kMany = 300'000; // past the first block and the second
  for (int64_t n = 0; n < kMany; ++n) {
    begin(recorder, {&op, n, 0, 0});
    recorder.log(10 * n, 10 * n + 3);
  }
  const Recorder copy = recorder;
  recorder.clearEvents();
  EXPECT_TRUE(recorder.events().empty());
  const std::vector<trace::Event> events = copy.events();
  ASSERT_EQ(events.size(), size_t(kMany));
  for (int64_t n = 0; n < kMany; ++n)
    ASSERT_EQ(std::tuple(events[size_t(n)].microbatch, events[size_t(n)].start, events[size_t(n)].end),
              std::tuple(n, 10 * n, 10 * n + 3));
}

TEST(Pattern, TellsEveryKeyApart) {
  std::vector<std::byte> bytes(1003);
  Slot slot{bytes.data(), plan::Bytes(bytes.size())};
  PatternKey key{3, plan::Payload::Forward, 7, 2};
  fill(slot, key);
  EXPECT_EQ(firstWrong(slot, key), -1);
  for (PatternKey other : {PatternKey{4, plan::Payload::Forward, 7, 2}, PatternKey{3, plan::Payload::Backward, 7, 2},
                           PatternKey{3, plan::Payload::Forward, 8, 2}, PatternKey{3, plan::Payload::Forward, 7, 3}})
    EXPECT_GE(firstWrong(slot, other), 0);
  bytes[1002] ^= std::byte(1);
  EXPECT_EQ(firstWrong(slot, key), 1002);
}

} // namespace
