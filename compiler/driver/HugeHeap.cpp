#include "compiler/driver/HugeHeap.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

namespace pipec {

void growHeap(size_t bytes) {
  constexpr size_t kMost = size_t(1) << 30, kPage = size_t(2) << 20;
  bytes = std::min(bytes, kMost);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, int(bytes));
  mallopt(M_ARENA_MAX, 1);                    // threads beside take what the passes have given back
  void *block = std::malloc(size_t(1) << 20); // grows the heap, once for all of it
  auto from = (reinterpret_cast<uintptr_t>(block) + kPage - 1) / kPage * kPage;
  auto to = reinterpret_cast<uintptr_t>(sbrk(0));
  if (block && from < to)
    madvise(reinterpret_cast<void *>(from), to - from, MADV_HUGEPAGE);
  std::free(block);
}

} // namespace pipec
