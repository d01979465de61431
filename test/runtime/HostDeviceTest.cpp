// The host device alone: order, waits, priority, failure, and what it says is overdue.
#include "runtime/device/host/HostDevice.h"

#include <gtest/gtest.h>

using namespace pipec;
using namespace pipec::runtime;

namespace {

/// Writes down what ran; ends as soon as it may.
struct Log final : HostBody {
  Span run(const HostWork &work, plan::Time ready) override {
    std::lock_guard lock(mutex);
    microbatches.push_back(work.label.microbatch);
    return {ready, ready};
  }
  std::mutex mutex;
  std::vector<int64_t> microbatches;
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
    device.submit(queue, {{&program.operations[0], microbatch, 0, 0}, {}, {}, &log});
  }
  void SetUp() override { device.setBell(2, bell); }

  plan::Program program = makeProgram();
  Clock clock{Clock::monotonic()};
  Failure failure;
  ParkingBell bell;
  Log log;
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
  EXPECT_EQ(head->work.label.microbatch, 5);
  device.finish(2, {7, 9, 1, 2, 3, 0});
  EXPECT_TRUE(device.synchronize(2, 1));
  submit(2, 6);
  EXPECT_EQ(device.head(2)->ready, 7); // the queue is free before the data are there
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

// More than a queue holds: the issuing thread waits for room, and a failure frees it.
TEST_F(HostDeviceTest, AFullQueueHoldsTheIssuerUntilItFails) {
  std::thread issuer([&] {
    for (int64_t m = 0; m < 100'000 && !failure.raised(); ++m)
      submit(2, m);
  });
  while (device.describeHead(2).empty())
    std::this_thread::yield();
  failure.raise(Status::run("enough"));
  issuer.join();
}

TEST_F(HostDeviceTest, SaysWhatIsOverdue) {
  submit(0, 3);
  device.wait(2, 0, 1);
  submit(2, 5);
  EXPECT_EQ(device.overdue(0), std::nullopt);
  EXPECT_FALSE(device.head(2));
  std::optional<std::string> late = device.overdue(0);
  ASSERT_TRUE(late);
  EXPECT_NE(late->find("microbatch 5 waits for \"rank 0: F stage 0 microbatch 3\""), std::string::npos) << *late;
  EXPECT_EQ(device.overdue(3'600'000'000'000'000), std::nullopt);
}

TEST_F(HostDeviceTest, MemoryIsZeroed) {
  std::byte *block = device.allocate(1000);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(std::all_of(block, block + 1000, [](std::byte b) { return b == std::byte(0); }));
  EXPECT_NE(device.allocate(0), nullptr);
}

} // namespace
