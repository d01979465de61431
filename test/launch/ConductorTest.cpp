// Permits and swaps, decided step by step without any process.
#include "runtime/launch/Conductor.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace pipec::runtime;

namespace {

Conductor::Options options(int64_t end, int64_t ahead = 4, int64_t swapEvery = 0) {
  Conductor::Options o;
  o.end = end;
  o.ahead = ahead;
  o.swapEvery = swapEvery;
  return o;
}

using Grants = std::vector<Grant>;

TEST(Conductor, AStepIsPermittedOnceItIsNeeded) {
  Conductor c(options(3, 1));
  EXPECT_EQ(c.grants(), (Grants{{1, 0, 0, false}}));
  EXPECT_EQ(c.grants(), Grants{});
  EXPECT_FALSE(c.wouldGrant(0));
  EXPECT_TRUE(c.wouldGrant(1));
  c.needed(1);
  EXPECT_EQ(c.grants(), (Grants{{2, 0, 0, false}}));
  c.needed(2);
  EXPECT_EQ(c.grants(), (Grants{{3, 0, 0, true}}));
  EXPECT_FALSE(c.wouldGrant(3));
}

TEST(Conductor, ShortStepsArePermittedSomeAtATime) {
  Conductor c(options(10));
  EXPECT_EQ(c.grants(), (Grants{{4, 0, 0, false}}));
  EXPECT_EQ(c.grants(), Grants{}); // nothing new
  c.needed(3);
  EXPECT_EQ(c.grants(), (Grants{{7, 0, 0, false}}));
  c.needed(1); // a slower process
  EXPECT_EQ(c.grants(), Grants{});
  c.needed(7);
  EXPECT_EQ(c.grants(), (Grants{{10, 0, 0, true}}));
  EXPECT_TRUE(c.over());
}

TEST(Conductor, AShortRunIsPermittedAtOnce) {
  Conductor c(options(2));
  EXPECT_EQ(c.grants(), (Grants{{2, 0, 0, true}}));
}

TEST(Conductor, ARunWhoseFirstStepIsAskedForMayHaveNone) {
  Conductor::Options asks = options(INT64_MAX, 1);
  asks.first = 2;
  asks.asks = true;
  Conductor begins(asks);
  EXPECT_EQ(begins.grants(), Grants{});
  begins.needed(2);
  EXPECT_EQ(begins.grants(), (Grants{{3, 0, 0, false}}));
  Conductor ends(asks);
  ends.ready(1, 1);
  EXPECT_EQ(ends.grants(), Grants{});
  ends.stop();
  EXPECT_EQ(ends.grants(), (Grants{{2, 0, 0, true}}));
}

TEST(Conductor, ASwapBeginsWhereNobodyHasAPermit) {
  Conductor c(options(20));
  c.grants();
  c.ready(1, 4);
  EXPECT_EQ(c.grants(), Grants{}); // steps up to 3 are permitted and stay as they are
  c.needed(1);
  EXPECT_EQ(c.grants(), (Grants{{5, 1, 1, false}}));
  EXPECT_EQ(c.current().from, 4);
  EXPECT_FALSE(c.waiting());
}

TEST(Conductor, ASwapThatIsReadyWhenAStepIsNeededBeginsWithIt) {
  Conductor c(options(20, 1));
  c.grants();
  c.ready(1, 1);
  c.needed(1);
  EXPECT_EQ(c.grants(), (Grants{{2, 1, 1, false}}));
  c.ready(2, 3); // of shorter steps
  c.needed(2);
  EXPECT_EQ(c.grants(), (Grants{{5, 2, 2, false}}));
}

TEST(Conductor, StopEndsAtWhatIsPermitted) {
  Conductor c(options(100));
  c.grants();
  c.needed(0);
  c.stop();
  EXPECT_EQ(c.grants(), (Grants{{4, 0, 0, true}}));
  EXPECT_EQ(c.end(), 4);
  EXPECT_EQ(c.grants(), Grants{});
}

TEST(Conductor, StopBeforeTheStartRunsNothing) {
  Conductor c(options(100));
  c.stop();
  EXPECT_EQ(c.grants(), (Grants{{0, 0, 0, true}}));
}

TEST(Conductor, NoSwapOnceAllIsPermitted) {
  Conductor c(options(3));
  c.grants();
  c.ready(1, 4);
  EXPECT_EQ(c.grants(), Grants{});
  EXPECT_EQ(c.epochs().size(), 1u);
}

TEST(Conductor, AScheduledSwapWaitsForItsStep) {
  Conductor c(options(100, 4, 6));
  c.ready(1, 4);
  EXPECT_EQ(c.grants(), (Grants{{4, 0, 0, false}}));
  c.needed(4);
  EXPECT_EQ(c.grants(), (Grants{{6, 0, 0, false}, {8, 1, 1, false}}));
  EXPECT_EQ(c.current().from, 6);
}

TEST(Conductor, AScheduledSwapThatIsLateIsNotWaitedForInVain) {
  Conductor c(options(100, 4, 5));
  c.grants();
  c.needed(4);
  EXPECT_EQ(c.grants(), (Grants{{5, 0, 0, false}})); // step 6 could be permitted, but the swap may still come
  c.needed(5);
  EXPECT_EQ(c.grants(), (Grants{{6, 0, 0, false}, {9, 0, 0, false}})); // now somebody would wait
  c.ready(1, 4);
  c.needed(6);
  EXPECT_EQ(c.grants(), (Grants{{10, 1, 1, false}})); // the first step that it can get
  c.ready(0, 4);
  c.needed(8);
  EXPECT_EQ(c.grants(), (Grants{{12, 2, 0, false}})); // the second one is in time again
  EXPECT_EQ(c.current().from, 10);
}

TEST(Conductor, SchedulesCountFromTheFirstStepOfAResumedRun) {
  Conductor::Options o = options(100, 4, 5);
  o.first = 12;
  Conductor c(o);
  c.ready(1, 4);
  EXPECT_EQ(c.grants(), (Grants{{15, 0, 0, false}, {16, 1, 1, false}}));
}

TEST(Conductor, EveryStepHasOneEpochWhateverTheOrder) {
  for (int64_t every : {1, 2, 3, 7}) {
    Conductor c(options(60, 3, every));
    std::vector<int64_t> epochs;
    for (int64_t step = 0; epochs.size() < 60; ++step) {
      if (step % 3 != 0 && !c.waiting())
        c.ready(step % 2, 3);
      for (const Grant &g : c.grants())
        epochs.resize(size_t(g.until), g.epoch);
      c.needed(std::min<int64_t>(int64_t(epochs.size()), step));
    }
    for (size_t e = 0; e < c.epochs().size(); ++e)
      EXPECT_EQ(epochs[size_t(c.epochs()[e].from)], int64_t(e)) << "every " << every;
    EXPECT_TRUE(std::is_sorted(epochs.begin(), epochs.end()));
  }
}

/// A late swap begins at the next one's step: that one waits for the step after.
TEST(Conductor, EveryEpochHasAStep) {
  Conductor conductor({.first = 0, .end = 100, .ahead = 4, .swapEvery = 3});
  for (int64_t step : {0, 1, 2, 3}) { // the first swap, at step 3, is not ready
    conductor.needed(step);
    conductor.grants();
  }
  conductor.ready(1, 4);
  conductor.needed(4);
  conductor.grants();
  const int64_t from = conductor.current().from;
  EXPECT_EQ(conductor.current().epoch, 1);
  conductor.ready(0, 4);
  for (int64_t step : {4, 5, 6, 7}) {
    conductor.needed(step);
    conductor.grants();
  }
  EXPECT_EQ(conductor.current().epoch, 2);
  EXPECT_GT(conductor.current().from, from);
}

} // namespace
