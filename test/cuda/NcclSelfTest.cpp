// What a rank sends itself over NCCL arrives: as much of NCCL as one GPU can show. With the stand-ins wherever there is
// neither (the program finds them where it was built; LD_LIBRARY_PATH comes before that).
#include "runtime/device/cuda/Driver.h"
#include "runtime/transport/nccl/NcclFunctions.h"

#include <algorithm>
#include <chrono>
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
    setenv("NCCL_SOCKET_IFNAME", "=lo", 0);
    if (const Status status = cuda.open(0); !status.ok())
      GTEST_SKIP() << status.message;
    if (const Status status = gpu::openLibrary("libnccl.so.2", "2.28",
                                               {
#define PIPEC_NCCL_SYMBOL(symbol, result, parameters) symbolOf(nccl.symbol),
                                                   PIPEC_NCCL_FUNCTIONS(PIPEC_NCCL_SYMBOL)
#undef PIPEC_NCCL_SYMBOL
                                                       symbolOf(groupStart),
                                                   symbolOf(groupEnd),
                                               });
        !status.ok())
      GTEST_SKIP() << status.message;
    gpu::NcclId id;
    gpu::NcclConfig config;
    config.blocking = 0;
    config.minCTAs = 1;
    config.maxCTAs = 4;
    ASSERT_EQ(nccl.ncclGetUniqueId.address(&id), gpu::kNcclSuccess);
    ASSERT_EQ(settled(nccl.ncclCommInitRankConfig.address(&comm, 1, id, 0, &config)), gpu::kNcclSuccess);
    for (gpu::CUstream &stream : streams)
      ASSERT_TRUE(cuda(&C::cuStreamCreateWithPriority, &stream, gpu::kStreamNonBlocking, 0));
    for (gpu::CUdeviceptr &each : memory)
      ASSERT_TRUE(cuda(&C::cuMemAlloc_v2, &each, kBytes));
  }
  void TearDown() override {
    if (comm) {
      EXPECT_EQ(nccl.ncclCommAbort.address(comm), gpu::kNcclSuccess);
    }
  }

  /// What becomes of a call that goes on in the background.
  gpu::NcclResult settled(gpu::NcclResult result) {
    while (result == gpu::kNcclInProgress) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      gpu::NcclResult state = gpu::kNcclInProgress;
      if (const gpu::NcclResult asked = nccl.ncclCommGetAsyncError.address(comm, &state); asked != gpu::kNcclSuccess)
        return asked;
      result = state;
    }
    return result;
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
  Driver cuda{0, failure};
  gpu::NcclFunctions nccl;
  gpu::Function<gpu::NcclResult()> groupStart{"ncclGroupStart"}, groupEnd{"ncclGroupEnd"};
  gpu::NcclComm comm = nullptr;
  gpu::CUstream streams[2] = {};
  gpu::CUdeviceptr memory[2] = {};
};

// NCCL wants both ends of such a transfer in one group.
TEST_F(NcclSelf, WhatARankSendsItselfArrives) {
  std::vector<unsigned char> sent(kBytes), received(kBytes);
  for (size_t n = 0; n < kBytes; ++n)
    sent[n] = static_cast<unsigned char>(n * 2654435761U >> 24);
  ASSERT_TRUE(cuda(&C::cuMemcpyHtoD_v2, memory[0], static_cast<const void *>(sent.data()), kBytes));
  for (const size_t bytes : {size_t(1), size_t(4096), kBytes}) {
    SCOPED_TRACE(bytes);
    ASSERT_TRUE(cuda(&C::cuMemsetD8_v2, memory[1], static_cast<unsigned char>(0), kBytes));
    ASSERT_EQ(groupStart.address(), gpu::kNcclSuccess);
    ASSERT_EQ(settled(nccl.ncclSend.address(reinterpret_cast<const void *>(memory[0]), bytes, gpu::kNcclInt8, 0, comm,
                                            streams[0])),
              gpu::kNcclSuccess);
    ASSERT_EQ(
        settled(nccl.ncclRecv.address(reinterpret_cast<void *>(memory[1]), bytes, gpu::kNcclInt8, 0, comm, streams[1])),
        gpu::kNcclSuccess);
    ASSERT_EQ(settled(groupEnd.address()), gpu::kNcclSuccess);
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
