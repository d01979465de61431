#include "runtime/device/cuda/Driver.h"

#include <cstdlib>
#include <fmt/format.h>

namespace pipec::runtime {

using C = gpu::CudaFunctions;

static std::string versionText(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

Status Driver::open(int32_t localRank) {
  // As many streams as a device lets run without waiting for one another's starts.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  const std::string needed = versionText(gpu::kCudaNeeded);
  auto wrong = [&](const std::string &what) {
    return Status::run(fmt::format("{}: --device=cuda: {}", process, what));
  };
  Status status;
  if (!functions.cuInit.address)
    status = gpu::openLibrary("libcuda.so.1", needed.c_str(),
                              {
#define PIPEC_CUDA_SYMBOL(symbol, parameters) gpu::symbolOf(functions.symbol),
                                  PIPEC_CUDA_FUNCTIONS(PIPEC_CUDA_SYMBOL)
#undef PIPEC_CUDA_SYMBOL
                              });
  if (!status.ok())
    return wrong(status.message);
  int version = 0;
  const gpu::CUresult began = ask(&C::cuInit, 0U);
  if (began == gpu::kCudaNoDevice)
    return wrong("there is no CUDA device here");
  if (began == gpu::kCudaSuccess && !(*this)(&C::cuDriverGetVersion, &version))
    return failure.status();
  if (began == gpu::kCudaSuccess && version < gpu::kCudaNeeded)
    return wrong(fmt::format("libcuda.so.1 is of CUDA {}, {} or newer is needed", versionText(version), needed));
  if (began != gpu::kCudaSuccess)
    fail("cuInit", began);
  if (failure.raised() || !(*this)(&C::cuDeviceGetCount, &count))
    return failure.status();
  if (count == 0)
    return wrong("there is no CUDA device here");
  ordinal = localRank % count;
  gpu::CUdevice device = 0;
  return (*this)(&C::cuDeviceGet, &device, ordinal) &&
                 (*this)(&C::cuDeviceGetAttribute, &multiprocessors, gpu::kMultiprocessors, device) &&
                 (*this)(&C::cuDevicePrimaryCtxRetain, &current, device) && (*this)(&C::cuCtxSetCurrent, current)
             ? Status{}
             : failure.status();
}

void Driver::fail(const char *call, gpu::CUresult result) {
  const char *text = nullptr;
  if (ask(&C::cuGetErrorString, result, &text) != gpu::kCudaSuccess || !text)
    text = "an unknown error";
  failure.raise(Status::run(fmt::format("{}: {}: {} ({})", process, call, text, result)));
}

} // namespace pipec::runtime
