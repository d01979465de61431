#include "test/standin/Memory.h"

#include "test/standin/Standin.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace pipec::standin {

using namespace runtime::gpu;

namespace {

constexpr size_t kLine = 64, kPoisoned = size_t(1) << 20;

struct Block {
  size_t bytes = 0;
  std::byte *alias = nullptr; // as many bytes again behind it hold the times
  int file = -1;
  bool host = false;
  bool foreign = false;
  bool opened = false; // it is another process's
};

/// What a handle holds.
struct Shared {
  pid_t process;
  int file;
  int device;
  size_t bytes;
};
static_assert(sizeof(Shared) <= sizeof(CUipcMemHandle));

std::mutex mutex;
auto &blocks = *new std::map<CUdeviceptr, Block>; // by address; never destroyed

size_t taken = 0; // by allocate()

/// Maps a file of twice `bytes` where this library reaches it, and as many addresses that nobody may touch.
int map(int file, size_t bytes, bool foreign, bool opened, CUdeviceptr *memory) {
  void *alias = mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void *address = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (alias == MAP_FAILED || address == MAP_FAILED)
    return kCudaOutOfMemory;
  *memory = reinterpret_cast<CUdeviceptr>(address);
  std::lock_guard lock(mutex);
  blocks[*memory] = {bytes, static_cast<std::byte *>(alias), file, false, foreign, opened};
  return kCudaSuccess;
}

} // namespace

Place place(const char *call, CUdeviceptr address, size_t bytes) {
  std::lock_guard lock(mutex);
  const auto next = blocks.upper_bound(address);
  char why[160];
  std::snprintf(why, sizeof why, "%s: no memory of the device and none that is pinned is at 0x%llx", call, address);
  if (next == blocks.begin())
    return refuse(kCudaIllegalAddress, why), Place();
  const auto &[base, block] = *std::prev(next);
  const size_t offset = address - base;
  if (offset >= block.bytes)
    return refuse(kCudaIllegalAddress, why), Place();
  if (bytes > block.bytes - offset) {
    std::snprintf(why, sizeof why, "%s: %zu bytes at 0x%llx run %zu bytes over the end of what was allocated", call,
                  bytes, address, bytes - (block.bytes - offset));
    return refuse(kCudaIllegalAddress, why), Place();
  }
  return {block.alias + offset,
          block.host ? nullptr : reinterpret_cast<uint64_t *>(block.alias + block.bytes + offset / kLine * kLine),
          block.host, block.foreign};
}

size_t allocated() { return taken; }

int allocate(CUdeviceptr *memory, size_t bytes) {
  const size_t whole = (bytes + 4095) / 4096 * 4096;
  const int file = memfd_create("pipec-standin", MFD_CLOEXEC);
  if (bytes == 0 || whole > size_t(settings().memory) - taken || file < 0 || ftruncate(file, off_t(2 * whole)) != 0)
    return refuse(kCudaOutOfMemory, "cuMemAlloc: out of memory");
  if (const int error = map(file, whole, false, false, memory))
    return error;
  taken += whole;
  std::memset(place("cuMemAlloc", *memory, 1).data, 0xa5, std::min(whole, kPoisoned));
  return kCudaSuccess;
}

int release(const char *call, CUdeviceptr memory, bool opened) {
  std::lock_guard lock(mutex);
  const auto found = blocks.find(memory);
  if (found == blocks.end() || found->second.host || found->second.opened != opened)
    return refuse(kCudaInvalidValue, std::string(call) + ": this is not the beginning of what it gives back");
  const Block &block = found->second;
  munmap(block.alias, 2 * block.bytes);
  munmap(reinterpret_cast<void *>(memory), block.bytes);
  close(block.file);
  taken -= opened ? 0 : block.bytes;
  blocks.erase(found);
  return kCudaSuccess;
}

int pin(void **memory, size_t bytes) {
  *memory = std::malloc(bytes);
  if (!*memory)
    return kCudaOutOfMemory;
  std::memset(*memory, 0xa5, bytes);
  std::lock_guard lock(mutex);
  blocks[reinterpret_cast<CUdeviceptr>(*memory)] = {bytes, static_cast<std::byte *>(*memory), -1, true, false, false};
  return kCudaSuccess;
}

int unpin(void *memory) {
  std::lock_guard lock(mutex);
  const auto found = blocks.find(reinterpret_cast<CUdeviceptr>(memory));
  if (found == blocks.end() || !found->second.host)
    return refuse(kCudaInvalidValue, "cuMemFreeHost: this memory is not from cuMemHostAlloc");
  blocks.erase(found);
  std::free(memory);
  return kCudaSuccess;
}

int share(CUipcMemHandle *handle, CUdeviceptr memory) {
  std::lock_guard lock(mutex);
  const auto found = blocks.find(memory);
  if (found == blocks.end() || found->second.host)
    return refuse(kCudaInvalidValue, "cuIpcGetMemHandle: this is not the beginning of an allocation");
  const Shared shared{getpid(), found->second.file, chosenDevice(), found->second.bytes};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &shared, sizeof shared);
  return kCudaSuccess;
}

int openShared(CUdeviceptr *memory, const CUipcMemHandle &handle) {
  Shared shared;
  std::memcpy(&shared, &handle, sizeof shared);
  if (shared.process == getpid())
    return refuse(kCudaInvalidValue, "cuIpcOpenMemHandle: this memory is of this very process");
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", int(shared.process), shared.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0)
    return refuse(kCudaInvalidValue, "cuIpcOpenMemHandle: the process that owns the memory is gone");
  return map(file, shared.bytes, shared.device != chosenDevice(), true, memory);
}

} // namespace pipec::standin
