#include "compiler/driver/CompileMemory.h"

#include "runtime/plan/Limits.h"
#include "runtime/plan/Text.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <limits>
#include <malloc.h>
#include <optional>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace pipec {

namespace {

constexpr int64_t kMiB = int64_t(1) << 20;

// Measured as the peak resident size (ru_maxrss) of `pipec compile`. Bytes of a stage: of 1F1B with one microbatch on
// 1,024 to 16,384 ranks. Bytes for each stage and microbatch: of 1F1B, GPipe, ZB-H1, 1F1B-V, V-Min, V-Half, DualPipe,
// Chimera, Hanayo, Seq1F1B and `auto` with 4,096 and 65,536 microbatches (of all copies, and of slices) on 4 to 64
// ranks. test/system/memory_test.py holds the estimate against the peak.
constexpr int64_t kBytesOfProgram = 16 * kMiB; // of the process itself
constexpr int64_t kBytesOfStage = 12 << 10;
constexpr int64_t kBytesFused = 900;   // measured: 530 to 745, of Hanayo, whose plan does not roll, to 1,155
constexpr int64_t kBytesSplit = 1000;  // measured: 850 to 1,020
constexpr int64_t kBytesOfRings = 600; // more, with rings for any timing

/// The first number of a file, or of the line of it that begins with `key`. None: there is no such file or number, as
/// where a control group's limit is "max".
std::optional<int64_t> numberIn(const std::string &path, const std::string &key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) {
      int64_t number = 0;
      return std::sscanf(line.c_str() + key.size(), "%ld", &number) == 1 ? std::optional(number) : std::nullopt;
    }
  return std::nullopt;
}

/// The least limit of the control groups of this process, of either version: a group's and all those that it is in.
int64_t leastGroupLimit(const std::string &root) {
  int64_t least = std::numeric_limits<int64_t>::max();
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) { // number:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "memory")
      continue;
    const std::string top = root + (controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    const std::string name = controllers.empty() ? "memory.max" : "memory.limit_in_bytes";
    for (std::filesystem::path group = line.substr(second + 1);; group = group.parent_path()) {
      if (const std::optional<int64_t> limit = numberIn(top + group.string() + "/" + name))
        least = std::min(least, *limit);
      if (!group.has_relative_path())
        break;
    }
  }
  return least;
}

} // namespace

int64_t bytesToCompile(const CompileSize &size) {
  const int64_t each = (size.isSplit ? kBytesSplit : kBytesFused) + (size.anyRings ? kBytesOfRings : 0);
  const __int128 all = kBytesOfProgram + size.stages * (kBytesOfStage + __int128(each) * size.microbatches);
  return int64_t(std::min<__int128>(all, limits::kBytes));
}

MemoryHere memoryHere(const std::string &root) {
  MemoryHere least{std::numeric_limits<int64_t>::max(), ""};
  const auto offer = [&](int64_t bytes, const char *source) {
    if (bytes < least.bytes)
      least = {std::max<int64_t>(bytes, 0), source};
  };
  if (const std::optional<int64_t> kilobytes = numberIn(root + "/proc/meminfo", "MemAvailable:"))
    offer(*kilobytes * 1024, "free on this machine");
  offer(leastGroupLimit(root), "of this control group");
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur < rlim_t(std::numeric_limits<int64_t>::max()))
    offer(int64_t(space.rlim_cur) - numberIn(root + "/proc/self/statm").value_or(0) * sysconf(_SC_PAGESIZE),
          "of this process (ulimit -v)");
  return least;
}

std::string tooLargeHere(const CompileSize &size) {
  constexpr int64_t kAnywhere = 64 * kMiB;
  const int64_t need = bytesToCompile(size);
  if (need <= kAnywhere)
    return "";
  const MemoryHere have = memoryHere();
  if (need <= have.bytes)
    return "";
  return fmt::format("compiling {} stages and {} microbatches takes about {} of memory, found {} {}: expected fewer "
                     "microbatches or stages, or more memory",
                     size.stages, size.microbatches, plan::bytesText(need), plan::bytesText(have.bytes), have.source);
}

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
