// The memory that a compile needs, and the memory that this machine has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace pipec {

/// The size of a compile. The memory that it needs depends on this; known before any order of passes is made.
struct CompileSize {
  int64_t stages = 0, microbatches = 0; // stages of all copies; microbatches of one copy, a slice counting as one
  bool isSplit = true;                  // backwards are split
  bool anyRings = false;                // transfer buffers are sized for any timing
};
/// Estimated peak resident size of this process during the compile, in bytes. CompileMemory.cpp says how the estimate
/// was measured.
int64_t bytesToCompile(const CompileSize &size);

/// The most memory that this process may use, and where the limit comes from.
struct MemoryHere {
  int64_t bytes = 0;
  std::string source; // "free on this machine", "of this control group", "of this process (ulimit -v)"
};
/// The least of: the memory that Linux says is available, after other processes; the limit of each control group of
/// this process; and the limit on its address space less what it uses. `root`: the folder that has /proc and /sys.
MemoryHere memoryHere(const std::string &root = "");

/// Says why no plan of this size can be compiled here; empty: it can. Looks at the machine only if much memory is
/// needed.
std::string tooLargeHere(const CompileSize &size);

/// Grows the heap by `bytes` at once (at most 1 GiB), on large pages. Programs can have hundreds of thousands of ops,
/// and a walk over all ops misses the TLB at nearly every op; large pages halve the time of a compile (measured with
/// test/bench/). Call on the main thread, before a large build. No effect if transparent huge pages are off.
void growHeap(size_t bytes);

} // namespace pipec
