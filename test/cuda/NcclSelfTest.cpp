// What a rank sends itself over NCCL arrives: as much of NCCL as one GPU can show. With the stand-ins wherever there is
// neither (the program finds them where it was built; LD_LIBRARY_PATH comes before that).
#include "runtime/device/cuda/Driver.h"
#include "test/cuda/SelfNccl.h"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <thread>

using namespace pipec;
using namespace pipec::runtime;
using C = gpu::CudaFunctions;

namespace {

class NcclSelf : public testing::Test {
protected:
  static constexpr size_t kBytes = 1 << 20;

  void SetUp() override {
    setenv("PIPEC_STANDIN", "devices=1", 0);
    if (const Status status = cuda.open(0); !status.ok())
      GTEST_SKIP() << status.message;
    if (const Status status = self.open(); !status.ok())
      GTEST_SKIP() << status.message;
    comm = self.join();
    ASSERT_NE(comm, nullptr);
    for (gpu::CUstream &stream : streams)
      ASSERT_TRUE(cuda(&C::cuStreamCreateWithPriority, &stream, gpu::kStreamNonBlocking, 0));
    for (gpu::CUdeviceptr &each : memory)
      ASSERT_TRUE(cuda(&C::cuMemAlloc_v2, &each, kBytes));
  }
  void TearDown() override {
    if (comm) {
      EXPECT_EQ(self.nccl.ncclCommAbort.address(comm), gpu::kNcclSuccess);
    }
  }
  void finish(gpu::CUstream stream) {
    gpu::CUevent event = nullptr;
    ASSERT_TRUE(cuda(&C::cuEventCreate, &event, gpu::kEventDisableTiming));
    ASSERT_TRUE(cuda(&C::cuEventRecord, event, stream));
    gpu::CUresult result = gpu::kCudaNotReady;
    while ((result = cuda.ask(&C::cuEventQuery, event)) == gpu::kCudaNotReady)
      std::this_thread::yield();
    EXPECT_EQ(result, gpu::kCudaSuccess);
  }

  Failure failure;
  Driver cuda{"rank 0", failure};
  test::SelfNccl self;
  gpu::NcclComm comm = nullptr;
  gpu::CUstream streams[2] = {};
  gpu::CUdeviceptr memory[2] = {};
};

TEST_F(NcclSelf, WhatARankSendsItselfArrives) {
  std::vector<unsigned char> sent(kBytes), received(kBytes);
  for (size_t n = 0; n < kBytes; ++n)
    sent[n] = static_cast<unsigned char>(n * 2654435761U >> 24);
  ASSERT_TRUE(cuda(&C::cuMemcpyHtoD_v2, memory[0], static_cast<const void *>(sent.data()), kBytes));
  for (const size_t bytes : {size_t(1), size_t(4096), kBytes}) {
    SCOPED_TRACE(bytes);
    ASSERT_TRUE(cuda(&C::cuMemsetD8_v2, memory[1], static_cast<unsigned char>(0), kBytes));
    ASSERT_EQ(self.transfer(comm, memory[0], streams[0], memory[1], streams[1], bytes), gpu::kNcclSuccess);
    for (const gpu::CUstream stream : streams)
      finish(stream);
    ASSERT_TRUE(cuda(&C::cuMemcpyDtoH_v2, static_cast<void *>(received.data()), memory[1], kBytes));
    EXPECT_TRUE(std::equal(sent.begin(), sent.begin() + ptrdiff_t(bytes), received.begin()));
    EXPECT_TRUE(
        std::all_of(received.begin() + ptrdiff_t(bytes), received.end(), [](unsigned char byte) { return byte == 0; }));
  }
  EXPECT_FALSE(failure.raised()) << failure.status().message;
}

} // namespace
