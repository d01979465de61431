#include "runtime/device/cuda/Kernels.h"

#include "runtime/device/cuda/Ptx.inc" // of kernels.ptx

#include <algorithm>
#include <utility>

namespace pipec::runtime {

using C = gpu::CudaFunctions;

bool Kernels::load(Driver &driver) {
  cuda = &driver;
  return driver(&C::cuModuleLoadData, &module, static_cast<const void *>(gpu::kKernels)) &&
         driver(&C::cuModuleGetFunction, &spinning, module, "pipec_spin") &&
         driver(&C::cuModuleGetFunction, &filling, module, "pipec_fill") &&
         driver(&C::cuModuleGetFunction, &checking, module, "pipec_check");
}

void Kernels::unload() {
  if (module)
    cuda->ask(&C::cuModuleUnload, std::exchange(module, nullptr));
}

bool Kernels::launch(gpu::CUfunction function, unsigned blocks, unsigned threads, gpu::CUstream stream,
                     void **parameters) {
  return (*cuda)(&C::cuLaunchKernel, function, blocks, 1U, 1U, threads, 1U, 1U, 0U, stream, parameters,
                 static_cast<void **>(nullptr));
}

bool Kernels::spin(gpu::CUstream stream, uint64_t nanoseconds, gpu::CUdeviceptr times) {
  void *parameters[] = {&nanoseconds, &times};
  return launch(spinning, 1, 1, stream, parameters);
}

/// Few blocks: they are to vanish beside what spins, not to fill the GPU.
static unsigned blocksFor(uint64_t words) { return unsigned(std::clamp<uint64_t>(words / 256, 1, 32)); }

bool Kernels::fill(gpu::CUstream stream, gpu::CUdeviceptr data, uint64_t words, uint64_t seed) {
  void *parameters[] = {&data, &words, &seed};
  return launch(filling, blocksFor(words), 256, stream, parameters);
}

bool Kernels::check(gpu::CUstream stream, gpu::CUdeviceptr data, uint64_t words, uint64_t seed,
                    gpu::CUdeviceptr firstWrong) {
  void *parameters[] = {&data, &words, &seed, &firstWrong};
  return launch(checking, blocksFor(words), 256, stream, parameters);
}

} // namespace pipec::runtime
