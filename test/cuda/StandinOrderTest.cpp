// When work starts on the stand-ins: as on a GPU, streams that share a connection wait for each other's work to start,
// a kernel waits for a free multiprocessor, and NCCL's ends start in the order of their launch. Each test is a process
// of its own, since a stand-in reads what it is told once.
#include "runtime/device/cuda/Driver.h"
#include "runtime/device/cuda/Kernels.h"
#include "test/cuda/SelfNccl.h"

#include <gtest/gtest.h>

using namespace pipec;
using namespace pipec::runtime;
using C = gpu::CudaFunctions;

namespace {

constexpr uint64_t kLong = 50'000'000; // nanoseconds

/// A process on the stand-ins.
class Process {
public:
  Process(const char *standin, const char *connections) {
    setenv("PIPEC_STANDIN", standin, 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", connections, 1);
    if (!cuda.open(0).ok() || !kernels.load(cuda) || !cuda(&C::cuMemAlloc_v2, &times, size_t(4096)))
      std::_Exit(2);
    for (gpu::CUstream &stream : streams)
      cuda(&C::cuStreamCreateWithPriority, &stream, gpu::kStreamNonBlocking, 0);
  }
  void spin(int stream, uint64_t nanoseconds, int slot) {
    kernels.spin(streams[stream], nanoseconds, times + gpu::CUdeviceptr(16 * slot));
  }
  gpu::CUevent record(int stream) {
    gpu::CUevent event = nullptr;
    cuda(&C::cuEventCreate, &event, gpu::kEventDefault);
    cuda(&C::cuEventRecord, event, streams[stream]);
    return event;
  }
  void wait(int stream, gpu::CUevent event) { cuda(&C::cuStreamWaitEvent, streams[stream], event, 0U); }
  void finish() {
    for (int stream = 0; stream < kStreams; ++stream)
      for (const gpu::CUevent event = record(stream); cuda.ask(&C::cuEventQuery, event) == gpu::kCudaNotReady;)
        std::this_thread::yield();
  }
  /// When the spin of a slot began and ended.
  std::pair<uint64_t, uint64_t> of(int slot) {
    uint64_t found[2] = {};
    cuda(&C::cuMemcpyDtoH_v2, static_cast<void *>(found), times + gpu::CUdeviceptr(16 * slot), sizeof found);
    return {found[0], found[1]};
  }
  [[noreturn]] void end(bool right) { std::_Exit(right && !failure.raised() ? 0 : 1); }

  static constexpr int kStreams = 5;
  Failure failure;
  Driver cuda{"rank 0", failure};
  Kernels kernels;
  gpu::CUstream streams[kStreams] = {};
  gpu::CUdeviceptr times = 0;
};

/// Ends the process with 0 if, as expected, what `overlaps` says holds or not. What may overlap need not: then again.
template <typename F>
[[noreturn]] void expectOverlap(const char *standin, const char *connections, bool may, F overlaps) {
  for (;;) {
    Process process(standin, connections);
    const bool did = overlaps(process);
    if (did || !may)
      process.end(did == may);
  }
}

// What stands behind a wait on one stream holds what was issued later on another.
[[noreturn]] void behindAWait(const char *connections, bool may) {
  expectOverlap("devices=1", connections, may, [](Process &process) {
    process.spin(0, kLong, 0);
    process.wait(1, process.record(0));
    process.spin(1, 1, 1);
    process.spin(2, 1, 2);
    process.finish();
    return process.of(2).first < process.of(0).second;
  });
}

[[noreturn]] void twoKernels(const char *standin, bool may) {
  expectOverlap(standin, "5", may, [](Process &process) {
    process.spin(0, kLong, 0);
    process.spin(1, kLong, 1);
    process.finish();
    return process.of(1).first < process.of(0).second && process.of(0).first < process.of(1).second;
  });
}

// Of two communicators the second's transfer, which waits for nothing, is issued behind the first's, which waits.
[[noreturn]] void twoCommunicators() {
  Process process("devices=1", "5");
  test::SelfNccl self;
  gpu::CUdeviceptr memory = 0;
  if (!self.open().ok() || !process.cuda(&C::cuMemAlloc_v2, &memory, size_t(4096)))
    std::_Exit(2);
  const gpu::NcclComm first = self.join(), second = self.join();
  process.spin(0, kLong, 0);
  const gpu::CUevent spun = process.record(0);
  process.wait(1, spun);
  self.transfer(first, memory, process.streams[1], memory + 1024, process.streams[2], 100);
  self.transfer(second, memory, process.streams[3], memory + 2048, process.streams[4], 100);
  const gpu::CUevent transferred = process.record(4);
  process.finish();
  float milliseconds = -1;
  process.cuda(&C::cuEventElapsedTime, &milliseconds, spun, transferred);
  process.end(milliseconds >= 0);
}

class StandinOrder : public testing::Test {
protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(StandinOrder, StreamsThatShareAConnectionStartInTheOrderOfIssue) {
  EXPECT_EXIT(behindAWait("1", false), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(behindAWait("5", true), testing::ExitedWithCode(0), "");
}

TEST_F(StandinOrder, AKernelWaitsForAFreeProcessor) {
  EXPECT_EXIT(twoKernels("devices=1 processors=1", false), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(twoKernels("devices=1 processors=2", true), testing::ExitedWithCode(0), "");
}

TEST_F(StandinOrder, EndsOfNcclStartInTheOrderOfTheirLaunch) {
  EXPECT_EXIT(twoCommunicators(), testing::ExitedWithCode(0), "");
}

} // namespace
