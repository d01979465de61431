// The host device alone: order, waits, priority, failure, and what it says of them.
#include "runtime/device/host/HostDevice.h"
#include "runtime/device/Summand.h"

#include <gtest/gtest.h>

using namespace pipec;
using namespace pipec::runtime;

namespace {

/// Writes down what ran; ends as soon as it may.
struct Log final : HostBody {
  Span run(const HostWork &work, plan::Time ready) override {
    std::lock_guard lock(mutex);
    microbatches.push_back(work.microbatch());
    return {ready, ready};
  }
  std::mutex mutex;
  std::vector<int64_t> microbatches;
};

struct NoNorm final : Summand {
  void gradientNorm(QueueId, const Label &, Slot, const Then &then) override { then(); }
  void setGlobalNorm(QueueId, const Label &, Slot, const Then &then) override { then(); }
};

/// A program with a compute, a weights and a communicator queue, each with `count` instructions in a step.
plan::Program makeProgram(uint32_t count = 100) {
  plan::Program program;
  program.queues = {{plan::QueueKind::Device, plan::Priority::Compute},
                    {plan::QueueKind::Device, plan::Priority::Weights},
                    {plan::QueueKind::Communicator, plan::Priority::Compute}};
  program.operations.resize(1);
  for (uint32_t q = 0; q < 3; ++q)
    program.instructions.push_back({0, q, 0, 0, 0, 1});
  program.step.push_back({0, 3, count});
  return program;
}

class HostDeviceTest : public testing::Test {
protected:
  void submit(QueueId queue, int64_t microbatch) {
    device.submit(queue, {&program.operations[0], microbatch, 0, 0}, {}, {}, &log);
  }
  void SetUp() override { device.setBell(2, bell); }

  plan::Program program = makeProgram();
  Clock clock{Clock::monotonic()};
  Failure failure;
  ParkingBell bell;
  Log log;
  Meter meter{0};              // outlives the device
  std::vector<Stream> streams; // stay until the device ends
  HostDevice device{program, clock, failure, false};
};

TEST_F(HostDeviceTest, CountsInstructionsOfAStep) {
  EXPECT_EQ(executedByQueue(program), (std::vector<int64_t>{100, 100, 100}));
}

TEST_F(HostDeviceTest, AQueueRunsInOrder) {
  for (int64_t m = 0; m < 50; ++m)
    submit(0, m);
  device.start();
  ASSERT_TRUE(device.synchronize(0, 50));
  ASSERT_EQ(log.microbatches.size(), 50u);
  EXPECT_TRUE(std::is_sorted(log.microbatches.begin(), log.microbatches.end()));
}

TEST_F(HostDeviceTest, AWaitHoldsWhatFollowsOnItsQueueOnly) {
  device.wait(0, 1, 2);
  submit(0, 10);
  submit(1, 1);
  submit(1, 2);
  device.start();
  ASSERT_TRUE(device.synchronize(0, 1));
  EXPECT_EQ(log.microbatches, (std::vector<int64_t>{1, 2, 10}));
}

TEST_F(HostDeviceTest, TheHigherQueueGoesFirst) {
  submit(1, 1);
  submit(0, 10);
  submit(0, 11);
  device.start();
  ASSERT_TRUE(device.synchronize(1, 1));
  EXPECT_EQ(log.microbatches, (std::vector<int64_t>{10, 11, 1}));
}

TEST_F(HostDeviceTest, ACommunicatorQueueGivesItsHeadWhenItsWaitsAreMet) {
  device.wait(2, 0, 1);
  submit(2, 5);
  EXPECT_FALSE(device.head(2));
  device.start();
  submit(0, 1);
  ASSERT_TRUE(device.synchronize(0, 1));
  bell.wait();
  std::optional<HostDevice::Head> head = device.head(2);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->work.microbatch(), 5);
  device.finish(2, {7, 9, 1, 2, 3, 0});
  EXPECT_TRUE(device.synchronize(2, 1));
  submit(2, 6);
  EXPECT_EQ(device.head(2)->ready, 7); // the queue is free before the data are there
}

// What has ended is known before its step has: a decision is made while the step runs.
TEST_F(HostDeviceTest, WhatWasMeasuredIsThereOnceTheDeviceWaits) {
  program.operations[0].cost = 10;
  device.measure(meter);
  device.start();
  for (int64_t m = 0; m < 3; ++m) {
    submit(0, m);
    int64_t count = 0;
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
         count == 0 && std::chrono::steady_clock::now() < end; std::this_thread::yield())
      for (const adapt::Sample &each : meter.take(0).samples) {
        EXPECT_EQ(std::pair(each.from, each.to), std::pair(0, -1));
        EXPECT_EQ(each.tally.planned, 10);
        count += each.tally.count;
      }
    EXPECT_EQ(count, 1) << m;
  }
}

TEST_F(HostDeviceTest, AFailureWakesWhoWaits) {
  device.start();
  std::thread other([&] { failure.raise(Status::run("gone")); });
  EXPECT_FALSE(device.synchronize(0, 1));
  other.join();
  EXPECT_EQ(failure.status().message, "gone");
}

TEST_F(HostDeviceTest, TheFirstFailureStays) {
  failure.raise(Status::run("first"));
  failure.raise(Status::run("second"));
  EXPECT_EQ(failure.status().message, "first");
}

TEST_F(HostDeviceTest, SaysWhatItWaitsForAndDoes) {
  submit(0, 3);
  device.wait(2, 0, 1);
  submit(2, 5);
  EXPECT_TRUE(device.waits(0).empty());
  EXPECT_FALSE(device.head(2));
  const std::vector<Wait> waits = device.waits(0);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_NE(waits[0].late().find("microbatch 5 waits for \"rank 0: F stage 0 microbatch 3\""), std::string::npos)
      << waits[0].late();
  EXPECT_TRUE(waits[0].whom.empty());
  EXPECT_TRUE(device.waits(3'600'000'000'000'000).empty());
  const std::optional<Pass> pass = device.pass();
  ASSERT_TRUE(pass);
  EXPECT_EQ(pass->what, "computes F stage 0 microbatch 3");
  EXPECT_EQ(device.pass()->since, pass->since);
}

/// An instruction of the queue in each of 50 trips. Queue 1 waits for queue 0's of the same trip, queue 0 for queue 1's
/// of two trips before; both for the other's whole last step.
Stream makeStream(const plan::Program &program, QueueId queue) {
  Stream stream;
  stream.segments.push_back({0, 1, 50});
  stream.executed = 50;
  stream.items.push_back({&program.operations[0], nullptr, nullptr, queue, 0, 2, 0, 1});
  if (queue == 0)
    stream.waits = {{1, false, -1, 1}, {1, true, 50, 0}};
  else
    stream.waits = {{0, false, 1, 1}, {0, true, 50, 0}};
  return stream;
}

TEST_F(HostDeviceTest, AStepRunsByItsQueuesStreams) {
  struct Order final : HostBody {
    Span run(const HostWork &work, plan::Time ready) override {
      seen.emplace_back(work.round->step, work.microbatch());
      return {ready, ready};
    }
    std::vector<std::pair<int64_t, int64_t>> seen;
  } order;
  NoNorm noSum;
  HostDevice traced(program, clock, failure, true);
  traced.setBell(2, bell);
  traced.serve(order, noSum);
  streams = {makeStream(program, 0), makeStream(program, 1), Stream{}};
  traced.start();
  for (int64_t step = 0; step < 3; ++step) {
    auto round = std::make_shared<Round>();
    round->queues = &streams;
    round->step = step;
    round->epoch = 7;
    round->starts = {50 * step, 50 * step, 0};
    round->previous = {50 * (step - 1), 50 * (step - 1), 0};
    round->fenced = step == 0;
    EXPECT_TRUE(traced.run(round));
  }
  ASSERT_TRUE(traced.synchronize(0, 150));
  ASSERT_TRUE(traced.synchronize(1, 150));
  ASSERT_EQ(order.seen.size(), 300u);
  for (size_t n = 0; n < 300; ++n) // one of each queue in turn, but for the two that the first may be ahead
    EXPECT_NEAR(double(order.seen[n].first * 50 + order.seen[n].second), double(n / 2), 1) << n;
  for (QueueId q = 0; q < 2; ++q) {
    std::vector<trace::Event> events = traced.recorders()[q].events();
    ASSERT_EQ(events.size(), 150u);
    for (size_t n = 0; n < 150; ++n) {
      EXPECT_EQ(std::tie(events[n].step, events[n].microbatch, events[n].epoch, events[n].queue),
                std::make_tuple(int64_t(n / 50), int64_t(n % 50), int64_t(7), q));
      EXPECT_LE(events[n].start, events[n].end);
    }
    EXPECT_EQ(traced.recorders()[q].steps.size(), 3u);
    EXPECT_EQ(traced.recorders()[q].lateness.count(), 150);
  }
  EXPECT_EQ(traced.describeHead(0), "");
}

// Of three in a trip somebody waits for the second: it and those before it count when it has ended, the others later.
TEST_F(HostDeviceTest, CountsAtOnceWhatSomebodyWaitsFor) {
  struct Look final : HostBody {
    explicit Look(HostDevice &device) : device(device) {}
    Span run(const HostWork &work, plan::Time ready) override {
      heads.push_back(device.describeHead(0));
      ran.push_back(work.microbatch());
      return {ready, ready};
    }
    HostDevice &device;
    std::vector<std::string> heads; // the first that is not counted
    std::vector<int64_t> ran;
  };
  program.queues.resize(1);
  program.instructions.resize(1);
  program.step = {{0, 1, 30}};
  HostDevice alone(program, clock, failure, false);
  Look look(alone);
  NoNorm noSum;
  alone.serve(look, noSum);
  Stream stream;
  stream.segments.push_back({0, 3, 10});
  stream.executed = 30;
  for (int32_t n = 0; n < 3; ++n)
    stream.items.push_back({&program.operations[0], nullptr, nullptr, 0, 0, 0, n, 3, n == 1});
  streams = {stream};
  auto round = std::make_shared<Round>();
  round->queues = &streams;
  round->starts = round->previous = {0};
  alone.run(round);
  alone.start();
  ASSERT_TRUE(alone.synchronize(0, 30));
  ASSERT_EQ(look.ran.size(), 30u);
  for (size_t n = 0; n < 30; ++n) {
    EXPECT_EQ(look.ran[n], int64_t(n));
    const size_t counted = n < 2 ? n : (n + 1) / 3 * 3 - 1; // the first one counts by itself
    EXPECT_EQ(look.heads[n], "rank 0: F stage 0 microbatch " + std::to_string(counted)) << n;
  }
}

TEST_F(HostDeviceTest, SaysWhereAStepStands) {
  streams = {makeStream(program, 0), Stream{}, Stream{}};
  streams[0].waits = {{2, false, 1, 1}, {2, true, 50, 0}};
  NoNorm noSum;
  device.serve(log, noSum);
  auto round = std::make_shared<Round>();
  round->queues = &streams;
  round->step = 3;
  round->starts = round->previous = {0, 0, 0};
  device.run(round);
  EXPECT_EQ(device.describeHead(0), "rank 0: F stage 0 microbatch 0");
  submit(2, 9);
  device.start();
  ASSERT_TRUE(device.head(2));
  device.finish(2, {0, 0, 0, 0, 0, 0});
  ASSERT_TRUE(device.synchronize(0, 1));
  EXPECT_EQ(device.describeHead(0), "rank 0: F stage 0 microbatch 1");
  std::vector<Wait> waits;
  while ((waits = device.waits(0)).empty())
    std::this_thread::yield();
  EXPECT_EQ(waits[0].late(), "rank 0: F stage 0 microbatch 1 waits for queue 2, which did not end");
}

// Word of a higher queue's head may be under way: a lower one's work is held for a quarter of its time, at most 2 ms.
TEST_F(HostDeviceTest, ALowerQueueIsHeldForAWhileInCarryPace) {
  constexpr plan::Time kMillisecond = 1'000'000'000;
  for (auto [cost, held] : {std::pair{4 * kMillisecond, kMillisecond}, {80 * kMillisecond, 2 * kMillisecond}}) {
    program.operations[0].cost = cost;
    Clock own{Clock::monotonic()};
    HostDevice carrying(program, own, failure, true, Pace::Carry);
    carrying.wait(0, 2, 1); // the compute queue has a head that is not ready
    carrying.submit(0, {&program.operations[0], 0, 0, 0}, {}, {}, &log);
    carrying.submit(1, {&program.operations[0], 1, 0, 0}, {}, {}, &log);
    carrying.start();
    ASSERT_TRUE(carrying.synchronize(1, 1));
    EXPECT_GE(carrying.recorders()[1].events().at(0).start, held);
    EXPECT_EQ(log.microbatches.back(), 1);
  }
}

TEST_F(HostDeviceTest, MemoryIsZeroed) {
  std::byte *block = device.allocate(1000);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(std::all_of(block, block + 1000, [](std::byte b) { return b == std::byte(0); }));
  EXPECT_NE(device.allocate(0), nullptr);
}

} // namespace
