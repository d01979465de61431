// The ring between who issues and who runs: nothing lost, nothing doubled, no wake-up missed, and a look from outside.
#include "runtime/device/host/Ring.h"
#include "runtime/device/host/Counters.h"

#include <gtest/gtest.h>
#include <thread>

using namespace pipec;
using namespace pipec::runtime;

namespace {

class RingTest : public testing::Test {
protected:
  HostWork work(int64_t microbatch) { return {{&operation, microbatch, 0, 0}, {}, {}, nullptr}; }
  void push(int64_t microbatch) {
    if (ring.pushWork(work(microbatch), stopped))
      bell.ring();
  }

  plan::Operation operation;
  std::atomic<bool> stopped{false};
  ParkingBell bell;
  Ring ring;
};

TEST_F(RingTest, AnEmptyOneAsksToBeRungOnce) {
  EXPECT_FALSE(ring.pushWork(work(0), stopped)); // nobody has looked yet
  ring.front();
  ring.pop();
  EXPECT_EQ(ring.front(), nullptr);
  EXPECT_EQ(ring.front(), nullptr);
  EXPECT_TRUE(ring.pushWork(work(1), stopped));
  EXPECT_FALSE(ring.pushWork(work(2), stopped));
}

TEST_F(RingTest, TellsWhatStandsAtItsHead) {
  EXPECT_FALSE(ring.peek());
  EXPECT_FALSE(ring.waitsFor());
  ring.pushWait(3, 7, stopped);
  EXPECT_EQ(ring.waitsFor(), 3u);
  EXPECT_FALSE(ring.peek());
  push(5);
  EXPECT_EQ(ring.peek()->microbatch, 5);
  EXPECT_EQ(ring.peek()->operation, &operation);
  ring.front();
  ring.pop();
  EXPECT_FALSE(ring.waitsFor());
  EXPECT_EQ(ring.peek()->microbatch, 5);
}

// Far more than it holds, with a runner that is often faster and parks, and often slower and lets the issuer park.
TEST_F(RingTest, CarriesEverythingInOrderWhileOthersLook) {
  constexpr int64_t kCount = 300'000;
  std::thread runner([&] {
    for (int64_t next = 0; next < kCount;) {
      Ring::Entry *entry = ring.front();
      if (!entry) {
        bell.wait();
        continue;
      }
      ASSERT_EQ(entry->work.label.microbatch, next);
      ++next;
      ring.pop();
    }
  });
  std::thread watcher([&] {
    int64_t last = 0;
    while (last < kCount - 1 && !stopped)
      if (std::optional<Ring::Known> known = ring.peek()) {
        ASSERT_GE(known->microbatch, last);
        ASSERT_EQ(known->operation, &operation);
        last = known->microbatch;
      }
  });
  for (int64_t m = 0; m < kCount; ++m)
    push(m);
  runner.join();
  stopped = true;
  watcher.join();
}

TEST_F(RingTest, AStopFreesWhoWaitsForRoom) {
  std::thread issuer([&] {
    for (int64_t m = 0; m < 100'000 && !stopped; ++m)
      push(m);
  });
  while (!ring.peek())
    std::this_thread::yield();
  stopped = true;
  ring.wakeIssuer();
  issuer.join();
}

} // namespace
