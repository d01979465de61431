// Counters and parking, under stress: a lost wake-up would hang here.
#include "runtime/device/host/Counters.h"

#include "runtime/device/PaceClock.h"
#include "runtime/device/host/Punctual.h"
#include "runtime/device/host/QuickClock.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <thread>

using namespace pipec;
using namespace pipec::runtime;

namespace {

TEST(Counters, TellsWhenACountWasReached) {
  Counters counters({10}, 1);
  ParkingBell bell;
  EXPECT_EQ(counters.reached(0, 0, 0, bell), 0);
  EXPECT_EQ(counters.reached(0, -3, 0, bell), 0);
  EXPECT_EQ(counters.reached(0, 1, 0, bell), std::nullopt);
  counters.post(0, 5);
  counters.post(0, 9);
  EXPECT_EQ(counters.count(0), 2);
  EXPECT_EQ(counters.reached(0, 1, 0, bell), 5);
  EXPECT_EQ(counters.reached(0, 2, 0, bell), 9);
}

TEST(Counters, CompletionsCountInQueueOrder) {
  Counters counters({10}, 1);
  ParkingBell bell;
  counters.post(0, 9); // data under way
  counters.post(0, 5);
  EXPECT_EQ(counters.reached(0, 2, 0, bell), 9);
}

TEST(Counters, WhatIsOlderThanTheHistoryIsAsOldAsTheOldest) {
  Counters counters({3}, 1);
  ParkingBell bell;
  for (int64_t n = 1; n <= 10; ++n)
    counters.post(0, n * 10);
  EXPECT_EQ(counters.reached(0, 8, 0, bell), 80);
  EXPECT_EQ(counters.reached(0, 2, 0, bell), 80);
}

TEST(Counters, TheBellRingsOnlyWhenTheCountIsReached) {
  struct CountingBell final : Bell {
    void ring() override { ++rings; }
    int rings = 0;
  } bell;
  Counters counters({10, 10}, 1);
  counters.reached(0, 2, 0, bell);
  counters.post(1, 0);
  counters.post(0, 0);
  EXPECT_EQ(bell.rings, 0);
  counters.post(0, 0);
  EXPECT_EQ(bell.rings, 1);
  counters.post(0, 0); // nobody waits any more
  EXPECT_EQ(bell.rings, 1);
}

TEST(Counters, ARingBeforeTheWaitIsNotLost) {
  ParkingBell bell;
  bell.ring();
  bell.wait();
  bell.waitUntil(std::chrono::steady_clock::now()); // not rung: ends by time
}

// A thread that loses its processor between two readings is off by as long, then and until the next reading of the real
// clock; most readings are not.
TEST(PaceClock, WorkBeginsWhenItCouldOrNow) {
  constexpr plan::Time kMillisecond = 1'000'000'000;
  Clock clock(Clock::monotonic() - 1'000'000'000); // a second ago
  const PaceClock carried(clock, Pace::Carry), naive(clock, Pace::Naive);
  EXPECT_EQ(carried.begin(5 * kMillisecond), 5 * kMillisecond);
  EXPECT_GE(naive.begin(5 * kMillisecond), 1000 * kMillisecond);
  EXPECT_EQ(carried.grace(4 * kMillisecond), kMillisecond);
  EXPECT_EQ(carried.grace(80 * kMillisecond), 2 * kMillisecond);
  EXPECT_EQ(naive.grace(4 * kMillisecond), 0);
}

TEST(QuickClock, GoesWithTheClockAndNeverBack) {
  constexpr plan::Time kMillisecond = 1'000'000'000;
  Clock clock(Clock::monotonic());
  QuickClock quick(clock);
  plan::Time last = 0;
  std::vector<plan::Time> off;
  while (last < 30 * kMillisecond) {
    plan::Time before = clock.now(), now = quick.now(), after = clock.now();
    ASSERT_GE(now, last);
    last = now;
    off.push_back(std::abs(now - (before + after) / 2));
  }
  std::nth_element(off.begin(), off.begin() + off.size() / 2, off.end());
  EXPECT_LT(off[off.size() / 2], kMillisecond / 10);
}

TEST(Punctual, IsInherited) {
  const long before = turnLength();
  std::thread([&] {
    bePunctual();
    std::thread([&] {
      EXPECT_EQ(prctl(PR_GET_TIMERSLACK), 1);
      EXPECT_EQ(turnLength(), before == 0 ? 0 : 100'000);
    }).join();
  }).join();
  EXPECT_EQ(turnLength(), before);
}

// Each of `threads` threads counts its own queue up after its left neighbour's: a ring in which every step is a park.
TEST(Counters, NoWakeUpIsLost) {
  constexpr size_t threads = 4;
  constexpr int64_t rounds = 20'000;
  Counters counters(std::vector<size_t>(threads, 16), threads);
  std::vector<ParkingBell> bells(threads); // who rings one may not be done when its owner is
  std::vector<std::thread> ring;
  for (size_t t = 0; t < threads; ++t)
    ring.emplace_back([&, t] {
      ParkingBell &bell = bells[t];
      for (int64_t n = 1; n <= rounds; ++n) {
        QueueId left = QueueId((t + threads - 1) % threads);
        int64_t due = t == 0 ? n - 1 : n;
        std::optional<Counters::Time> time;
        while (!(time = counters.reached(left, due, t, bell)))
          bell.wait();
        counters.post(QueueId(t), *time + 1);
      }
    });
  for (std::thread &thread : ring)
    thread.join();
  ParkingBell bell;
  EXPECT_EQ(counters.reached(threads - 1, rounds, 0, bell), rounds * int64_t(threads));
}

} // namespace
