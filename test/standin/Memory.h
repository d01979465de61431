// Device memory: shared between processes, out of the host's reach (a touch faults), full of rubbish at first; and
// memory of the host that the device reaches. Each word of 8 bytes that a stream writes for another has a time.
#pragma once

#include "runtime/device/cuda/CudaFunctions.h"

#include <cstddef>
#include <cstdint>

namespace pipec::standin {

struct Place {
  std::byte *data = nullptr;   // where this library reaches it; null: nowhere
  uint64_t *written = nullptr; // times of the last eight values of the line of 64 bytes that it is in
  bool host = false;           // the host's memory
  bool foreign = false;        // of another device
};

/// What `bytes` bytes at `address` are; refuses (for `call`) what is neither allocated nor pinned, and what runs over
/// its end.
Place place(const char *call, runtime::gpu::CUdeviceptr address, size_t bytes);

int allocate(runtime::gpu::CUdeviceptr *memory, size_t bytes);
/// Of allocate(), or of openShared().
int release(const char *call, runtime::gpu::CUdeviceptr memory, bool opened);
/// Bytes that this process has allocated.
size_t allocated();
int pin(void **memory, size_t bytes);
int unpin(void *memory);
int share(runtime::gpu::CUipcMemHandle *handle, runtime::gpu::CUdeviceptr memory);
int openShared(runtime::gpu::CUdeviceptr *memory, const runtime::gpu::CUipcMemHandle &handle);

} // namespace pipec::standin
