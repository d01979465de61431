// What a rank measures until it is asked.
#include "runtime/device/Meter.h"

#include <gtest/gtest.h>

using namespace pipec;
using namespace pipec::runtime;

namespace {

constexpr plan::Time kMs = 1'000'000'000;

TEST(Meter, KeepsWhatALinkCarried) {
  Meter meter(3);
  for (int i = 1; i <= 1000; ++i)
    meter.transferred(2, i * kMs, i * kMs + 2 * kMs, kMs, 100);
  const Meter::Taken taken = meter.take(0);
  EXPECT_LE(taken.samples.size(), 32u); // however many
  EXPECT_GE(taken.samples.size(), 8u);
  adapt::Tally all;
  plan::Time last = 0;
  for (const adapt::Sample &each : taken.samples) {
    EXPECT_EQ(std::pair(each.from, each.to), std::pair(2, 3));
    EXPECT_GT(each.end, last);
    last = each.end;
    all.add(each.tally);
  }
  EXPECT_EQ(last, 1002 * kMs);
  EXPECT_EQ(all.count, 1000);
  EXPECT_EQ(all.sum, 2000 * kMs);
  EXPECT_EQ(all.planned, 1000 * kMs);
  EXPECT_EQ(all.bytes, 100'000);
  EXPECT_TRUE(meter.take(0).samples.empty());
}

TEST(Meter, KeepsOperationsApartFromTransfers) {
  Meter meter(0);
  adapt::Tally tally;
  tally.add(13, 10, 0);
  meter.computed(tally, kMs);
  meter.transferred(1, 0, kMs, 0, 1);
  const Meter::Taken taken = meter.take(0);
  ASSERT_EQ(taken.samples.size(), 2u);
  EXPECT_EQ(taken.samples[0].to, -1);
  EXPECT_EQ(taken.samples[0].tally.sum, 13);
  EXPECT_EQ(taken.samples[1].from, 1);
}

TEST(Meter, SaysWhenStepsEnded) {
  Meter meter(0);
  meter.stepped(0, 5);
  meter.stepped(0, 7); // on another queue
  meter.stepped(1, 9);
  EXPECT_EQ(meter.take(1).steps, (std::vector<std::pair<int64_t, plan::Time>>{{0, 7}}));
  meter.stepped(1, 12);
  EXPECT_EQ(meter.take(2).steps, (std::vector<std::pair<int64_t, plan::Time>>{{1, 12}}));
  for (int64_t step = 2; step < 10'000; ++step)
    meter.stepped(step, step);
  EXPECT_EQ(meter.take(10'000).steps.size(), 64u); // nobody asked for those before
}

} // namespace
