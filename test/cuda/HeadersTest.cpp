// Our declarations of CUDA's functions are those of its header.
#include "runtime/device/cuda/CudaFunctions.h"

#include <gtest/gtest.h>
#include <type_traits>

#ifdef PIPEC_HAS_CUDA_H
#include <cuda.h>

using namespace pipec::runtime;

namespace {

// The header's names stand for the newest versions of the functions, and enumerations for numbers; 64-bit numbers have
// two names, and the handle of shared memory is a struct of its own on each side.
template <typename T, bool = std::is_enum_v<T>> struct Plain {
  using type = T;
};
template <typename T> struct Plain<T, true> {
  using type = int;
};
template <> struct Plain<CUipcMemHandle, false> {
  using type = gpu::CUipcMemHandle;
};
template <> struct Plain<unsigned long, false> {
  using type = unsigned long long;
};
template <typename T, bool Enum> struct Plain<T *, Enum> {
  using type = typename Plain<T>::type *;
};
template <> struct Plain<const void *, false> {
  using type = const void *;
};
template <typename R, typename... P> struct Plain<R(P...), false> {
  using type = typename Plain<R>::type(typename Plain<P>::type...);
};
template <typename T> using plain = typename Plain<T>::type;

#define COMPARE(ours, header)                                                                                          \
  static_assert(std::is_same_v<plain<std::remove_pointer_t<decltype(gpu::CudaFunctions::ours.address)>>, plain<header>>)
COMPARE(cuInit, decltype(::cuInit));
COMPARE(cuDriverGetVersion, decltype(::cuDriverGetVersion));
COMPARE(cuGetErrorString, decltype(::cuGetErrorString));
COMPARE(cuDeviceGetCount, decltype(::cuDeviceGetCount));
COMPARE(cuDeviceGet, decltype(::cuDeviceGet));
COMPARE(cuDeviceGetAttribute, decltype(::cuDeviceGetAttribute));
COMPARE(cuDevicePrimaryCtxRetain, decltype(::cuDevicePrimaryCtxRetain));
COMPARE(cuCtxSetCurrent, decltype(::cuCtxSetCurrent));
COMPARE(cuCtxGetStreamPriorityRange, decltype(::cuCtxGetStreamPriorityRange));
COMPARE(cuMemGetInfo_v2, decltype(::cuMemGetInfo));
COMPARE(cuMemAlloc_v2, decltype(::cuMemAlloc));
COMPARE(cuMemFree_v2, decltype(::cuMemFree));
COMPARE(cuMemHostAlloc, decltype(::cuMemHostAlloc));
COMPARE(cuMemFreeHost, decltype(::cuMemFreeHost));
COMPARE(cuMemsetD8_v2, decltype(::cuMemsetD8));
COMPARE(cuMemcpyDtoH_v2, decltype(::cuMemcpyDtoH));
COMPARE(cuMemcpyHtoD_v2, decltype(::cuMemcpyHtoD));
COMPARE(cuMemcpyAsync, decltype(::cuMemcpyAsync));
COMPARE(cuIpcGetMemHandle, decltype(::cuIpcGetMemHandle));
COMPARE(cuIpcOpenMemHandle_v2, decltype(::cuIpcOpenMemHandle));
COMPARE(cuIpcCloseMemHandle, decltype(::cuIpcCloseMemHandle));
COMPARE(cuStreamQuery, decltype(::cuStreamQuery));
COMPARE(cuEventDestroy_v2, decltype(::cuEventDestroy));
COMPARE(cuModuleUnload, decltype(::cuModuleUnload));
COMPARE(cuStreamCreateWithPriority, decltype(::cuStreamCreateWithPriority));
COMPARE(cuStreamDestroy_v2, decltype(::cuStreamDestroy));
COMPARE(cuStreamWaitEvent, decltype(::cuStreamWaitEvent));
COMPARE(cuStreamWaitValue64_v2, decltype(::cuStreamWaitValue64));
COMPARE(cuStreamWriteValue64_v2, decltype(::cuStreamWriteValue64));
COMPARE(cuLaunchHostFunc, decltype(::cuLaunchHostFunc));
COMPARE(cuEventCreate, decltype(::cuEventCreate));
COMPARE(cuEventRecord, decltype(::cuEventRecord));
COMPARE(cuEventQuery, decltype(::cuEventQuery));
using ElapsedTime = decltype(::cuEventElapsedTime); // the header's is of a later version, of the same parameters
#undef cuEventElapsedTime
COMPARE(cuEventElapsedTime, ElapsedTime);
COMPARE(cuModuleLoadData, decltype(::cuModuleLoadData));
COMPARE(cuModuleGetFunction, decltype(::cuModuleGetFunction));
COMPARE(cuLaunchKernel, decltype(::cuLaunchKernel));

TEST(CudaHeaders, AllFunctionsAreCompared) {
  int functions = 0;
#define COUNT(symbol, parameters) ++functions;
  PIPEC_CUDA_FUNCTIONS(COUNT)
  EXPECT_EQ(functions, 37) << "compare the new one above";
}

TEST(CudaHeaders, NumbersAreTheHeaders) {
  EXPECT_EQ(gpu::kCudaSuccess, int(CUDA_SUCCESS));
  EXPECT_EQ(gpu::kCudaInvalidValue, int(CUDA_ERROR_INVALID_VALUE));
  EXPECT_EQ(gpu::kCudaOutOfMemory, int(CUDA_ERROR_OUT_OF_MEMORY));
  EXPECT_EQ(gpu::kCudaNoDevice, int(CUDA_ERROR_NO_DEVICE));
  EXPECT_EQ(gpu::kCudaIllegalState, int(CUDA_ERROR_ILLEGAL_STATE));
  EXPECT_EQ(gpu::kCudaNotFound, int(CUDA_ERROR_NOT_FOUND));
  EXPECT_EQ(gpu::kCudaNotReady, int(CUDA_ERROR_NOT_READY));
  EXPECT_EQ(gpu::kCudaIllegalAddress, int(CUDA_ERROR_ILLEGAL_ADDRESS));
  EXPECT_EQ(gpu::kMultiprocessors, int(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  EXPECT_EQ(gpu::kStreamNonBlocking, unsigned(CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(gpu::kEventDefault, unsigned(CU_EVENT_DEFAULT));
  EXPECT_EQ(gpu::kEventDisableTiming, unsigned(CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(gpu::kHostPortable, unsigned(CU_MEMHOSTALLOC_PORTABLE));
  EXPECT_EQ(gpu::kIpcLazyPeerAccess, unsigned(CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  EXPECT_EQ(gpu::kWaitValueAtLeast, unsigned(CU_STREAM_WAIT_VALUE_GEQ));
  EXPECT_EQ(gpu::kWriteValueDefault, unsigned(CU_STREAM_WRITE_VALUE_DEFAULT));
  EXPECT_EQ(sizeof(gpu::CUipcMemHandle), sizeof(CUipcMemHandle));
}

} // namespace
#else
TEST(CudaHeaders, AllFunctionsAreCompared) { GTEST_SKIP() << "no cuda.h here"; }
#endif
