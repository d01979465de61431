// The parts of CUDA's driver that pipec uses, declared here so that no header of CUDA's is needed; a test compares them
// with cuda.h if that is found (test/cuda). Names are the library's own symbols, with their versions. All functions
// take device pointers as 64-bit addresses and sizes in bytes, and return 0 or an error.
#pragma once

#include "runtime/device/cuda/Function.h"

#include <cstddef>
#include <cstdint>

// Tags of CUDA's handles, in the namespace in which CUDA has them.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;

namespace pipec::runtime::gpu {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = CUctx_st *;
using CUstream = CUstream_st *;
using CUevent = CUevent_st *;
using CUmodule = CUmod_st *;
using CUfunction = CUfunc_st *;
using CUhostFn = void (*)(void *);
struct CUipcMemHandle {
  char reserved[64];
};

inline constexpr CUresult kCudaSuccess = 0;
inline constexpr CUresult kCudaInvalidValue = 1;
inline constexpr CUresult kCudaOutOfMemory = 2;
inline constexpr CUresult kCudaNoDevice = 100;
inline constexpr CUresult kCudaIllegalState = 401;
inline constexpr CUresult kCudaNotFound = 500;
inline constexpr CUresult kCudaNotReady = 600;
inline constexpr CUresult kCudaIllegalAddress = 700;
inline constexpr unsigned kStreamNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kEventDefault = 0;       // CU_EVENT_DEFAULT: it has a time
inline constexpr unsigned kEventDisableTiming = 2; // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kHostPortable = 1;       // CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned kIpcLazyPeerAccess = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
inline constexpr unsigned kWaitValueAtLeast = 0;   // CU_STREAM_WAIT_VALUE_GEQ
inline constexpr unsigned kWriteValueDefault = 0;  // CU_STREAM_WRITE_VALUE_DEFAULT
inline constexpr int kMultiprocessors = 16;        // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
inline constexpr int kCudaNeeded = 12030;          // 12.3, as cuDriverGetVersion returns it

// X(symbol, parameters)
#define PIPEC_CUDA_FUNCTIONS(X)                                                                                        \
  X(cuInit, (unsigned flags))                                                                                          \
  X(cuDriverGetVersion, (int *version))                                                                                \
  X(cuGetErrorString, (CUresult error, const char **text))                                                             \
  X(cuDeviceGetCount, (int *count))                                                                                    \
  X(cuDeviceGet, (CUdevice * device, int ordinal))                                                                     \
  X(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                                                \
  X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                                  \
  X(cuCtxSetCurrent, (CUcontext context))                                                                              \
  X(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                                                          \
  X(cuMemGetInfo_v2, (size_t *free, size_t *total))                                                                    \
  X(cuMemAlloc_v2, (CUdeviceptr * memory, size_t bytes))                                                               \
  X(cuMemFree_v2, (CUdeviceptr memory))                                                                                \
  X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                                     \
  X(cuMemFreeHost, (void *memory))                                                                                     \
  X(cuMemsetD8_v2, (CUdeviceptr memory, unsigned char value, size_t bytes))                                            \
  X(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))                                                       \
  X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))                                                 \
  X(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                                  \
  X(cuIpcGetMemHandle, (CUipcMemHandle * handle, CUdeviceptr memory))                                                  \
  X(cuIpcOpenMemHandle_v2, (CUdeviceptr * memory, CUipcMemHandle handle, unsigned flags))                              \
  X(cuIpcCloseMemHandle, (CUdeviceptr memory))                                                                         \
  X(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority))                                     \
  X(cuStreamDestroy_v2, (CUstream stream))                                                                             \
  X(cuStreamQuery, (CUstream stream))                                                                                  \
  X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                               \
  X(cuStreamWaitValue64_v2, (CUstream stream, CUdeviceptr word, uint64_t value, unsigned flags))                       \
  X(cuStreamWriteValue64_v2, (CUstream stream, CUdeviceptr word, uint64_t value, unsigned flags))                      \
  X(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *data))                                                \
  X(cuEventCreate, (CUevent * event, unsigned flags))                                                                  \
  X(cuEventDestroy_v2, (CUevent event))                                                                                \
  X(cuEventRecord, (CUevent event, CUstream stream))                                                                   \
  X(cuEventQuery, (CUevent event))                                                                                     \
  X(cuEventElapsedTime, (float *milliseconds, CUevent begin, CUevent end))                                             \
  X(cuModuleLoadData, (CUmodule * module, const void *image))                                                          \
  X(cuModuleUnload, (CUmodule module))                                                                                 \
  X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))                                   \
  X(cuLaunchKernel,                                                                                                    \
    (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,            \
     unsigned blockZ, unsigned sharedBytes, CUstream stream, void **parameters, void **extra))

struct CudaFunctions {
#define PIPEC_CUDA_ENTRY(symbol, parameters) Function<CUresult parameters> symbol{#symbol};
  PIPEC_CUDA_FUNCTIONS(PIPEC_CUDA_ENTRY)
#undef PIPEC_CUDA_ENTRY
};

} // namespace pipec::runtime::gpu
