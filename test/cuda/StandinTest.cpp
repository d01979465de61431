// The stand-in holds who calls it to CUDA's rules, and says which was broken.
#include "runtime/device/Clock.h"
#include "runtime/device/cuda/Driver.h"
#include "runtime/device/cuda/Kernels.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <thread>

using namespace pipec;
using namespace pipec::runtime;
using C = gpu::CudaFunctions;

namespace {

class Standin : public testing::Test {
protected:
  void SetUp() override {
    setenv("PIPEC_STANDIN", "devices=2", 0);
    const Status status = cuda.open(0);
    ASSERT_TRUE(status.ok()) << status.message;
    ASSERT_TRUE(cuda(&C::cuStreamCreateWithPriority, &stream, gpu::kStreamNonBlocking, 0));
    ASSERT_TRUE(cuda(&C::cuMemAlloc_v2, &memory, size_t(1000)));
  }
  void says(const std::string &what) {
    EXPECT_TRUE(failure.raised());
    EXPECT_NE(failure.status().message.find(what), std::string::npos) << failure.status().message;
  }
  void spin(uint64_t nanoseconds) {
    if (kernels.load(cuda))
      kernels.spin(stream, nanoseconds);
  }
  void finish() {
    gpu::CUevent event = nullptr;
    cuda.ask(&C::cuEventCreate, &event, gpu::kEventDefault);
    cuda.ask(&C::cuEventRecord, event, stream);
    while (cuda.ask(&C::cuEventQuery, event) == gpu::kCudaNotReady)
      std::this_thread::yield();
  }

  Failure failure;
  Driver cuda{"rank 3", failure};
  Kernels kernels;
  gpu::CUstream stream = nullptr;
  gpu::CUdeviceptr memory = 0;
};

TEST_F(Standin, AWaitForAnEventThatWasNeverRecordedIsRefused) {
  gpu::CUevent event = nullptr;
  ASSERT_TRUE(cuda(&C::cuEventCreate, &event, gpu::kEventDefault));
  EXPECT_FALSE(cuda(&C::cuStreamWaitEvent, stream, event, 0U));
  says("rank 3: cuStreamWaitEvent: the event was never recorded, so nothing would wait (1)");
}

TEST_F(Standin, AForeignPointerIsRefused) {
  double here = 0;
  EXPECT_FALSE(cuda(&C::cuMemcpyAsync, memory, reinterpret_cast<gpu::CUdeviceptr>(&here), sizeof here, stream));
  says("cuMemcpyAsync: no memory of the device and none that is pinned is at 0x");
}

TEST_F(Standin, AnOverrunIsRefused) {
  EXPECT_FALSE(cuda(&C::cuMemcpyAsync, memory, memory + 2048, size_t(3000), stream));
  says("3000 bytes at 0x");
}

TEST_F(Standin, ASecondThreadThatIssuesIsRefused) {
  spin(1000);
  std::thread([&] {
    cuda.enter();
    kernels.spin(stream, 1000);
  }).join();
  says("cuLaunchKernel: a second thread issues work");
  finish();
}

TEST_F(Standin, AThreadWithoutAContextIsRefused) {
  ASSERT_TRUE(kernels.load(cuda));
  std::thread([&] { kernels.spin(stream, 1000); }).join();
  says("cuLaunchKernel: this thread has no context");
}

TEST_F(Standin, MemoryIsGivenBackOnceAndWhereItBegins) {
  gpu::CUdeviceptr more = 0;
  ASSERT_TRUE(cuda(&C::cuMemAlloc_v2, &more, size_t(8192)));
  EXPECT_NE(cuda.ask(&C::cuMemFree_v2, more + 4096), gpu::kCudaSuccess);
  EXPECT_NE(cuda.ask(&C::cuIpcCloseMemHandle, more), gpu::kCudaSuccess); // it is this process's own
  EXPECT_EQ(cuda.ask(&C::cuMemFree_v2, more), gpu::kCudaSuccess);
  EXPECT_NE(cuda.ask(&C::cuMemFree_v2, more), gpu::kCudaSuccess);
}

TEST_F(Standin, WhatWouldWaitOrAllocateWhileWorkIsUnderWayIsRefused) {
  spin(50'000'000);
  char word[8];
  EXPECT_FALSE(cuda(&C::cuMemcpyDtoH_v2, static_cast<void *>(word), memory, sizeof word));
  says("cuMemcpyDtoH_v2: would wait for stream");
  gpu::CUdeviceptr more = 0;
  EXPECT_NE(cuda.ask(&C::cuMemAlloc_v2, &more, size_t(8)), gpu::kCudaSuccess);
  finish();
  EXPECT_EQ(cuda.ask(&C::cuMemAlloc_v2, &more, size_t(8)), gpu::kCudaSuccess);
}

TEST_F(Standin, DeviceMemoryIsRubbishAtFirstAndOutOfTheHostsReach) {
  unsigned char byte = 0;
  ASSERT_TRUE(cuda(&C::cuMemcpyDtoH_v2, static_cast<void *>(&byte), memory + 999, size_t(1)));
  EXPECT_NE(byte, 0);
  EXPECT_DEATH(*reinterpret_cast<volatile char *>(memory) = 1, "");
}

TEST_F(Standin, TimeIsCarriedFromDeadlineToDeadline) {
  gpu::CUevent begin = nullptr, end = nullptr;
  ASSERT_TRUE(cuda(&C::cuEventCreate, &begin, gpu::kEventDefault));
  ASSERT_TRUE(cuda(&C::cuEventCreate, &end, gpu::kEventDefault));
  constexpr int64_t kHeld = 200'000'000;
  int64_t began = 0;
  do { // until all is issued before any of it can begin, as it nearly always is
    began = Clock::monotonic();
    spin(kHeld);
    ASSERT_TRUE(cuda(&C::cuEventRecord, begin, stream));
    for (int i = 0; i < 100; ++i)
      kernels.spin(stream, 100'000);
    ASSERT_TRUE(cuda(&C::cuEventRecord, end, stream));
  } while (Clock::monotonic() - began > kHeld);
  finish();
  float milliseconds = 0;
  ASSERT_TRUE(cuda(&C::cuEventElapsedTime, &milliseconds, begin, end));
  EXPECT_NEAR(milliseconds, 10, 0.001);
}

} // namespace
