// What a compile needs of this machine's memory, and what there is of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace pipec {

/// What the memory of a compile depends on, known before any order of passes is made.
struct CompileSize {
  int64_t stages = 0, microbatches = 0; // stages of all copies; microbatches of a copy, by slices
  bool isSplit = true;                  // backwards are
  bool anyRings = false;                // transfer buffers are for any timing
};
/// About the most bytes that this process holds during the compile: its peak resident size. CompileMemory.cpp says how
/// that was measured.
int64_t bytesToCompile(const CompileSize &size);

/// What this process may hold at most, and what says so.
struct MemoryHere {
  int64_t bytes = 0;
  std::string source; // "free on this machine", "of this control group", "of this process (ulimit -v)"
};
/// The least of: what Linux says is available, which is what other processes have left; the limit of each control group
/// that this process is in; and the limit on its address space, less what it has. `root`: where /proc and /sys stand.
MemoryHere memoryHere(const std::string &root = "");

/// Why no plan of this size can be compiled here; empty: it can. Looks at the machine only where much is needed.
std::string tooLargeHere(const CompileSize &size);

/// Makes the heap grow by `bytes` at once (at most 1 GiB) on large pages. Programs can have hundreds of thousands of
/// ops. A walk over all ops misses the TLB at nearly every op; large pages halve the time of a compile (measured with
/// test/bench/). To be called on the main thread, before a large build. No effect where transparent huge pages are off.
void growHeap(size_t bytes);

} // namespace pipec
