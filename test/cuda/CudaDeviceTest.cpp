// What the device asks of the driver for what it is told: no more than is needed. The driver is a table of functions
// that write down who was called.
#include "runtime/device/cuda/CudaDevice.h"
#include "test/runtime/Plans.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>

using namespace pipec;
using namespace pipec::runtime;

namespace {

std::vector<std::string> calls;
std::map<gpu::CUstream, int> streams; // in the order of their making
std::vector<int> priorities;
intptr_t made = 0; // streams and events

std::string nameOf(gpu::CUstream stream) { return std::to_string(streams.at(stream)); }

gpu::CudaFunctions recorder() {
  gpu::CudaFunctions functions;
#define PIPEC_SUCCEED(symbol, parameters)                                                                              \
  functions.symbol.address = [] parameters { return calls.push_back(#symbol), gpu::kCudaSuccess; };
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
  using namespace gpu;
  PIPEC_CUDA_FUNCTIONS(PIPEC_SUCCEED)
#pragma GCC diagnostic pop
#undef PIPEC_SUCCEED
  functions.cuDriverGetVersion.address = [](int *version) { return *version = kCudaNeeded, kCudaSuccess; };
  functions.cuDeviceGetCount.address = [](int *count) { return *count = 3, kCudaSuccess; };
  functions.cuDeviceGet.address = [](CUdevice *device, int ordinal) {
    calls.push_back(fmt::format("device {}", ordinal));
    return *device = ordinal, kCudaSuccess;
  };
  functions.cuCtxGetStreamPriorityRange.address = [](int *least, int *greatest) {
    return *least = 0, *greatest = -5, kCudaSuccess;
  };
  functions.cuStreamCreateWithPriority.address = [](CUstream *stream, unsigned, int priority) {
    *stream = reinterpret_cast<CUstream>(++made);
    streams.emplace(*stream, int(streams.size()));
    priorities.push_back(priority);
    return kCudaSuccess;
  };
  functions.cuEventCreate.address = [](CUevent *event, unsigned) {
    return *event = reinterpret_cast<CUevent>(++made), kCudaSuccess;
  };
  functions.cuEventQuery.address = [](CUevent) { return kCudaSuccess; };
  functions.cuMemAlloc_v2.address = [](CUdeviceptr *memory, size_t) { return *memory = 4096, kCudaSuccess; };
  functions.cuStreamWaitEvent.address = [](CUstream stream, CUevent, unsigned) {
    return calls.push_back(nameOf(stream) + " waits"), kCudaSuccess;
  };
  functions.cuEventRecord.address = [](CUevent, CUstream stream) {
    return calls.push_back(nameOf(stream) + " records"), kCudaSuccess;
  };
  return functions;
}

class CudaDeviceTest : public testing::Test {
protected:
  void SetUp() override {
    calls.clear();
    streams.clear();
    priorities.clear();
  }
  std::vector<std::string> open(int32_t localRank = 0) {
    const Status status = device.open(localRank);
    EXPECT_TRUE(status.ok()) << status.message;
    return std::exchange(calls, {});
  }
  void start() {
    device.start(Clock(Clock::monotonic()));
    calls.clear();
  }
  void issue(QueueId queue, bool awaited) {
    EXPECT_EQ(device.begin(queue, {&operation, 0, 0, 0}), device.on(queue));
    device.issued(queue, awaited);
  }

  const plan::Program program = test::makeProgram({}, 0); // queues: computation, then communication
  const plan::Operation operation{};
  Failure failure;
  CudaDevice device{program, failure, false, recorder()};
};

using Calls = std::vector<std::string>;

TEST_F(CudaDeviceTest, AnEventIsRecordedForWhatIsWaitedForAlone) {
  open();
  start();
  for (const bool awaited : {false, true, false, false, true})
    issue(0, awaited);
  EXPECT_EQ(calls, (Calls{"0 records", "0 records"}));
}

TEST_F(CudaDeviceTest, AWaitThatAnEarlierOneImpliesIsLeftOut) {
  open();
  start();
  for (int n = 0; n < 4; ++n)
    issue(0, true);
  calls.clear();
  device.wait(1, 0, 2);
  device.wait(1, 0, 2);
  device.wait(1, 0, 1);
  EXPECT_EQ(calls, (Calls{"1 waits"}));
  device.wait(1, 0, 3);
  device.wait(2, 0, 1); // another queue's own
  device.wait(0, 0, 4); // its own order
  EXPECT_EQ(calls, (Calls{"1 waits", "1 waits", "2 waits"}));
}

TEST_F(CudaDeviceTest, WhatIsKnownToHaveEndedIsNotWaitedFor) {
  open();
  start();
  issue(0, true);
  ASSERT_TRUE(device.synchronize(0, 1));
  calls.clear();
  device.wait(1, 0, 1);
  EXPECT_EQ(calls, Calls{});
}

TEST_F(CudaDeviceTest, CommunicationHasTheHighestPriority) {
  open();
  ASSERT_EQ(priorities.size(), program.queues.size());
  for (size_t q = 0; q < priorities.size(); ++q)
    if (program.queues[q].kind == plan::QueueKind::Device)
      EXPECT_GT(priorities[q], -5);
    else
      EXPECT_EQ(priorities[q], -5);
}

TEST_F(CudaDeviceTest, OnceStartedItAllocatesNothing) {
  open();
  EXPECT_NE(device.allocate(100), nullptr);
  start();
  EXPECT_EQ(device.allocate(100), nullptr);
  EXPECT_EQ(device.room(), 0);
  EXPECT_EQ(calls, Calls{});
}

TEST_F(CudaDeviceTest, RanksOfAMachineTakeItsGpusInTurn) {
  const Calls opening = open(7); // of three
  EXPECT_NE(std::find(opening.begin(), opening.end(), "device 1"), opening.end());
}

} // namespace
