// The three kernels of synthetic stages (kernels.cu), loaded from the PTX that piperun carries.
#pragma once

#include "runtime/device/cuda/Driver.h"

namespace pipec::runtime {

class Kernels {
public:
  /// False if the driver refuses the kernels; the Failure says why.
  bool load(Driver &driver);
  /// At rest; nothing may be put on a stream afterwards.
  void unload();

  // Each of these puts a kernel on `stream`, on the issuing thread; false if the call failed.

  /// Keeps one thread busy for `nanoseconds`. `times`: null, or 16 bytes of device memory for when it began and ended.
  bool spin(gpu::CUstream stream, uint64_t nanoseconds, gpu::CUdeviceptr times = 0);
  bool fill(gpu::CUstream stream, gpu::CUdeviceptr data, uint64_t words, uint64_t seed);
  bool check(gpu::CUstream stream, gpu::CUdeviceptr data, uint64_t words, uint64_t seed, gpu::CUdeviceptr firstWrong);

private:
  bool launch(gpu::CUfunction function, unsigned blocks, unsigned threads, gpu::CUstream stream, void **parameters);
  Driver *cuda = nullptr;
  gpu::CUmodule module = nullptr;
  gpu::CUfunction spinning = nullptr, filling = nullptr, checking = nullptr;
};

} // namespace pipec::runtime
