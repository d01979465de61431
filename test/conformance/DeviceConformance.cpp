// What every device promises (runtime/device/Device.h).
#include "test/conformance/Implementations.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

using namespace pipec;
using namespace pipec::runtime;
using namespace pipec::test;

namespace {

constexpr QueueId kCompute = 0, kWeights = 1;

/// A compute and a weights queue, `count` instructions of each in a step.
plan::Program makeProgram(uint32_t count) {
  plan::Program program;
  program.queues = {{plan::QueueKind::Device, plan::Priority::Compute},
                    {plan::QueueKind::Device, plan::Priority::Weights}};
  program.operations.resize(1);
  for (uint32_t q = 0; q < 2; ++q)
    program.instructions.push_back({0, q, 0, 0, 0, 1});
  program.step.push_back({0, 2, count});
  return program;
}

class DeviceConformance : public Conformance<DeviceImplementation> {
protected:
  void SetUp() override {
    Conformance::SetUp();
    if (!IsSkipped())
      under = GetParam().make(program);
  }
  void TearDown() override { open(); }
  void issue(QueueId queue, std::function<void()> body) {
    under->issue(queue, std::move(body));
    issued.add(under->device(), queue);
  }
  void issue(QueueId queue, int number) {
    issue(queue, [this, number] {
      std::lock_guard lock(mutex);
      ran.push_back(number);
    });
  }
  /// Work that stays until open() is called.
  void issueGate(QueueId queue) {
    issue(queue, [this] {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return opened; });
    });
  }
  void open() {
    std::lock_guard lock(mutex);
    opened = true;
    changed.notify_all();
  }
  void wait(QueueId queue, QueueId of, int64_t count) { issued.wait(under->device(), queue, of, count); }
  bool synchronize(QueueId of, int64_t count) { return issued.synchronize(under->device(), of, count); }

  plan::Program program = makeProgram(1000);
  std::mutex mutex;
  std::vector<int> ran;
  std::condition_variable changed;
  bool opened = false;
  Issued issued;
  std::unique_ptr<DeviceUnderTest> under;
};

TEST_P(DeviceConformance, AQueueRunsInOrder) {
  for (int i = 0; i < 1000; ++i)
    issue(kCompute, i);
  under->start();
  ASSERT_TRUE(synchronize(kCompute, 1000));
  ASSERT_EQ(ran.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
}

TEST_P(DeviceConformance, ACountIsReachedWhenAsManyHaveCompleted) {
  under->start();
  EXPECT_TRUE(synchronize(kCompute, 0));
  for (int i = 1; i <= 50; ++i) {
    issue(kCompute, i);
    ASSERT_TRUE(synchronize(kCompute, i));
    std::lock_guard lock(mutex);
    EXPECT_EQ(ran.size(), size_t(i));
  }
}

TEST_P(DeviceConformance, WhatAnOperationDidIsSeenByWhoWaitedForIt) {
  std::vector<int> plain(1000, 0); // no lock, no atomics: the counters order it
  for (int i = 0; i < 1000; ++i) {
    issue(kCompute, [&plain, i] { plain[size_t(i)] = i + 1; });
    wait(kWeights, kCompute, i + 1);
    issue(kWeights, [&plain, i] { plain[size_t(i)] *= 2; });
  }
  under->start();
  ASSERT_TRUE(synchronize(kWeights, 1000));
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(plain[size_t(i)], 2 * (i + 1));
}

TEST_P(DeviceConformance, AWaitHoldsWhatFollowsItOnItsQueueAlone) {
  issue(kCompute, 1);
  issue(kWeights, 2);
  issue(kWeights, 3);
  wait(kCompute, kWeights, 2);
  issue(kCompute, 4);
  issue(kWeights, 5);
  under->start();
  ASSERT_TRUE(synchronize(kCompute, 2));
  ASSERT_TRUE(synchronize(kWeights, 3));
  auto place = [&](int number) { return std::find(ran.begin(), ran.end(), number); };
  EXPECT_LT(place(3), place(4)); // the others are held by nothing but what stands before them
  EXPECT_LT(place(1), place(4));
  EXPECT_LT(place(2), place(3));
  EXPECT_LT(place(3), place(5));
}

TEST_P(DeviceConformance, AWaitForWhatIsLongDoneHoldsNothing) {
  under->start();
  issue(kWeights, 1);
  ASSERT_TRUE(synchronize(kWeights, 1));
  wait(kCompute, kWeights, 1);
  issue(kCompute, 2);
  EXPECT_TRUE(synchronize(kCompute, 1));
}

TEST_P(DeviceConformance, TheHigherOfTwoReadyQueuesGoesFirst) {
  if (!GetParam().priorities)
    GTEST_SKIP() << GetParam().name << " takes priorities as a hint";
  issue(kWeights, 3);
  issue(kCompute, 1);
  issue(kCompute, 2);
  under->start();
  ASSERT_TRUE(synchronize(kWeights, 1));
  EXPECT_EQ(ran, (std::vector<int>{1, 2, 3}));
}

TEST_P(DeviceConformance, MemoryIsZeroedAndAlignedAndStays) {
  std::vector<std::byte *> blocks;
  for (plan::Bytes bytes : {0, 1, 1000, 1 << 20}) {
    blocks.push_back(under->device().allocate(bytes));
    ASSERT_NE(blocks.back(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % kAlignment, 0u);
    const Slot all{blocks.back(), bytes};
    EXPECT_EQ(bytesOf(under->device(), all), std::vector<std::byte>(size_t(bytes), std::byte(0)));
    fill(under->device(), all, std::byte(0xff));
  }
  std::sort(blocks.begin(), blocks.end());
  EXPECT_EQ(std::unique(blocks.begin(), blocks.end()), blocks.end());
}

TEST_P(DeviceConformance, MoreMemoryThanThereIsIsNullptr) {
  EXPECT_EQ(under->device().allocate(plan::Bytes(1) << 60), nullptr);
  EXPECT_EQ(under->device().allocate(INT64_MAX), nullptr);
}

TEST_P(DeviceConformance, AFailureEndsEveryWait) {
  issueGate(kCompute);
  wait(kWeights, kCompute, 1);
  issue(kWeights, 1);
  under->start();
  std::thread other([&] { under->failure().raise(Status::run("gone")); });
  EXPECT_FALSE(synchronize(kCompute, 1));
  other.join();
  EXPECT_FALSE(synchronize(kWeights, 1));
  open();
}

// More than any queue holds. Nothing can run, so the issuing thread stands still until the failure frees it.
TEST_P(DeviceConformance, AFailureFreesWhoIssues) {
  if (!GetParam().freesIssuer)
    GTEST_SKIP() << GetParam().name << ": who stands before a full queue is in the driver; the process ends without it";
  issueGate(kWeights);
  wait(kCompute, kWeights, 1);
  std::atomic<bool> many{false};
  std::thread issuer([&] {
    for (int i = 0; i < 1'000'000 && !under->failure().raised(); ++i) {
      many = i > 1000;
      under->issue(kCompute, [] {});
    }
  });
  while (!many)
    std::this_thread::yield();
  under->failure().raise(Status::run("enough"));
  issuer.join();
  open();
}

INSTANTIATE_TEST_SUITE_P(All, DeviceConformance, testing::ValuesIn(deviceImplementations()),
                         [](const auto &info) { return info.param.name; });

} // namespace
