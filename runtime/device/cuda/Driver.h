// CUDA's driver in this process, on one device: opened, checked, and called by one thread, the interpreter's. A call
// that fails raises the rank's Failure with the name of the call and the driver's message.
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/device/cuda/CudaFunctions.h"

#include <optional>
#include <string>

namespace pipec::runtime {

class Driver {
public:
  /// `failure` must outlive the driver. `functions`: called in place of the library's, for measurements.
  Driver(std::string process, Failure &failure, const gpu::CudaFunctions &functions = {})
      : process(std::move(process)), failure(failure), functions(functions) {}

  /// Opens libcuda.so.1 and a context on device `localRank` modulo the number of visible devices, current on the
  /// calling thread. Code::Run, in one line: no driver, one that is too old or lacks a function, or no device. Sets
  /// variables that CUDA reads when it begins, unless they are set already.
  Status open(int32_t localRank);

  template <typename... P> using Entry = gpu::Function<gpu::CUresult(P...)> gpu::CudaFunctions::*;

  /// Calls the driver. False if the call failed; the Failure is raised.
  template <typename... P, typename... A> bool operator()(Entry<P...> function, A... arguments) {
    const gpu::CUresult result = ask(function, arguments...);
    return result == gpu::kCudaSuccess || (fail((functions.*function).name, result), false);
  }
  /// Calls the driver and returns its result; for calls with errors that are answers.
  template <typename... P, typename... A> gpu::CUresult ask(Entry<P...> function, A... arguments) {
    return inside.call(functions.*function, arguments...);
  }
  /// Makes the context current on the calling thread, which may be another one while the issuing thread waits for it.
  void enter() const { functions.cuCtxSetCurrent.address(current); }
  /// Raises the Failure for what a call returned.
  void fail(const char *call, gpu::CUresult result);

  /// For calls of other libraries by the same thread.
  gpu::Inside &calls() { return inside; }
  const gpu::Inside &calls() const { return inside; }
  int devices() const { return count; } // visible devices
  int device() const { return ordinal; }
  int processors() const { return multiprocessors; }
  gpu::CUcontext context() const { return current; }

private:
  const std::string process;
  Failure &failure;
  gpu::CudaFunctions functions;
  gpu::Inside inside;
  int count = 0;
  int ordinal = 0;
  int multiprocessors = 0;
  gpu::CUcontext current = nullptr;
};

} // namespace pipec::runtime
