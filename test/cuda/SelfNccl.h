// NCCL in one process, of one rank, as tests call it without a transport.
#pragma once

#include "runtime/transport/nccl/NcclFunctions.h"

#include <chrono>
#include <cstdlib>
#include <thread>

namespace pipec::test {

using namespace pipec::runtime;

struct SelfNccl {
  /// Code::Run: why there is none.
  Status open() {
    setenv("NCCL_SOCKET_IFNAME", "=lo", 0);
    return gpu::openLibrary("libnccl.so.2", "2.28",
                            {
#define PIPEC_NCCL_SYMBOL(symbol, result, parameters) symbolOf(nccl.symbol),
                                PIPEC_NCCL_FUNCTIONS(PIPEC_NCCL_SYMBOL)
#undef PIPEC_NCCL_SYMBOL
                                    symbolOf(groupStart),
                                symbolOf(groupEnd),
                            });
  }

  /// A communicator of this process alone; null if NCCL refuses.
  gpu::NcclComm join() {
    gpu::NcclId id;
    gpu::NcclConfig config;
    config.blocking = 0;
    config.minCTAs = 1;
    config.maxCTAs = 4;
    gpu::NcclComm comm = nullptr;
    if (nccl.ncclGetUniqueId.address(&id) != gpu::kNcclSuccess)
      return nullptr;
    const gpu::NcclResult result = nccl.ncclCommInitRankConfig.address(&comm, 1, id, 0, &config);
    return settled(result, comm) == gpu::kNcclSuccess ? comm : nullptr;
  }

  /// What becomes of a call that goes on in the background.
  gpu::NcclResult settled(gpu::NcclResult result, gpu::NcclComm comm) const {
    while (result == gpu::kNcclInProgress) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      gpu::NcclResult state = gpu::kNcclInProgress;
      const gpu::NcclResult asked = nccl.ncclCommGetAsyncError.address(comm, &state);
      result = asked == gpu::kNcclSuccess ? state : asked;
    }
    return result;
  }

  /// Sends to itself, both ends in one group, as NCCL wants that.
  gpu::NcclResult transfer(gpu::NcclComm comm, gpu::CUdeviceptr from, gpu::CUstream sends, gpu::CUdeviceptr to,
                           gpu::CUstream receives, size_t bytes) const {
    gpu::NcclResult result = groupStart.address();
    if (result == gpu::kNcclSuccess)
      result = settled(
          nccl.ncclSend.address(reinterpret_cast<const void *>(from), bytes, gpu::kNcclInt8, 0, comm, sends), comm);
    if (result == gpu::kNcclSuccess)
      result =
          settled(nccl.ncclRecv.address(reinterpret_cast<void *>(to), bytes, gpu::kNcclInt8, 0, comm, receives), comm);
    const gpu::NcclResult end = settled(groupEnd.address(), comm);
    return result == gpu::kNcclSuccess ? end : result;
  }

  gpu::NcclFunctions nccl;
  gpu::Function<gpu::NcclResult()> groupStart{"ncclGroupStart"}, groupEnd{"ncclGroupEnd"};
};

} // namespace pipec::test
