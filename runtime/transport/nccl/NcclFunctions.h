// The parts of NCCL that pipec uses, declared here so that no header of NCCL's is needed; a test compares them with
// nccl.h if that is found (test/cuda). All functions return 0 or an error.
#pragma once

#include "runtime/device/cuda/CudaFunctions.h"

struct ncclComm;

namespace pipec::runtime::gpu {

using NcclResult = int;
using NcclComm = ncclComm *;
struct NcclId {
  char internal[128];
};

/// The configuration of NCCL 2.28; later versions accept it too. NCCL chooses the values that are kUnset.
struct NcclConfig {
  static constexpr int kUnset = INT32_MIN;
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 22800;
  int blocking = kUnset;
  int cgaClusterSize = kUnset;
  int minCTAs = kUnset;
  int maxCTAs = kUnset;
  const char *netName = nullptr;
  int splitShare = kUnset;
  int trafficClass = kUnset;
  const char *commName = nullptr;
  int collnetEnable = kUnset;
  int CTAPolicy = kUnset;
  int shrinkShare = kUnset;
  int nvlsCTAs = kUnset;
  int nChannelsPerNetPeer = kUnset;
  int nvlinkCentricSched = kUnset;
};

inline constexpr NcclResult kNcclSuccess = 0;
inline constexpr NcclResult kNcclSystemError = 2;
inline constexpr NcclResult kNcclInvalidArgument = 4;
inline constexpr NcclResult kNcclInvalidUsage = 5;
inline constexpr NcclResult kNcclRemoteError = 6;
inline constexpr NcclResult kNcclInProgress = 7;
inline constexpr int kNcclInt8 = 0, kNcclFloat32 = 7, kNcclFloat64 = 8; // ncclDataType_t
inline constexpr int kNcclSum = 0;                                      // ncclRedOp_t
inline constexpr int kNcclNeeded = 22800;                               // 2.28, as ncclGetVersion says it

// X(symbol, result, parameters)
#define PIPEC_NCCL_FUNCTIONS(X)                                                                                        \
  X(ncclGetVersion, NcclResult, (int *version))                                                                        \
  X(ncclGetUniqueId, NcclResult, (NcclId * id))                                                                        \
  X(ncclCommInitRankConfig, NcclResult, (NcclComm * comm, int ranks, NcclId id, int rank, NcclConfig *config))         \
  X(ncclCommGetAsyncError, NcclResult, (NcclComm comm, NcclResult * error))                                            \
  X(ncclCommAbort, NcclResult, (NcclComm comm))                                                                        \
  X(ncclGetErrorString, const char *, (NcclResult error))                                                              \
  X(ncclGetLastError, const char *, (NcclComm comm))                                                                   \
  X(ncclSend, NcclResult, (const void *from, size_t count, int type, int peer, NcclComm comm, CUstream stream))        \
  X(ncclRecv, NcclResult, (void *to, size_t count, int type, int peer, NcclComm comm, CUstream stream))                \
  X(ncclAllReduce, NcclResult,                                                                                         \
    (const void *from, void *to, size_t count, int type, int operation, NcclComm comm, CUstream stream))               \
  X(ncclReduce, NcclResult,                                                                                            \
    (const void *from, void *to, size_t count, int type, int operation, int root, NcclComm comm, CUstream stream))     \
  X(ncclBroadcast, NcclResult,                                                                                         \
    (const void *from, void *to, size_t count, int type, int root, NcclComm comm, CUstream stream))                    \
  X(ncclGroupStart, NcclResult, ())                                                                                    \
  X(ncclGroupEnd, NcclResult, ())

struct NcclFunctions {
#define PIPEC_NCCL_ENTRY(symbol, result, parameters) Function<result parameters> symbol{#symbol};
  PIPEC_NCCL_FUNCTIONS(PIPEC_NCCL_ENTRY)
#undef PIPEC_NCCL_ENTRY
};

} // namespace pipec::runtime::gpu
