// What a compile needs of memory, and what a machine has of it, from files that a kernel could have written.
#include "compiler/driver/CompileMemory.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace pipec {
namespace {

constexpr int64_t kGiB = int64_t(1) << 30;

class Machine {
public:
  Machine() : root(std::filesystem::temp_directory_path() / ("pipec-memory-" + std::to_string(::getpid()))) {
    write("/proc/meminfo", "MemTotal:       33554432 kB\nMemFree:         1048576 kB\nMemAvailable:    8388608 kB\n");
  }
  ~Machine() { std::filesystem::remove_all(root); }

  void write(const std::string &path, const std::string &text) {
    std::filesystem::create_directories((root.string() + path).substr(0, root.string().size() + path.rfind('/')));
    std::ofstream(root.string() + path) << text;
  }
  MemoryHere memory() const { return memoryHere(root.string()); }

private:
  const std::filesystem::path root;
};

void has(const Machine &machine, int64_t bytes, const std::string &source) {
  EXPECT_EQ(machine.memory().bytes, bytes);
  EXPECT_EQ(machine.memory().source, source);
}

TEST(Memory, WhatOtherProcessesHaveLeft) { has({}, 8 * kGiB, "free on this machine"); }

TEST(Memory, TheLeastLimitOfAllControlGroupsThatOneIsIn) {
  Machine machine;
  machine.write("/proc/self/cgroup", "0::/job/step\n");
  machine.write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  machine.write("/sys/fs/cgroup/job/memory.max", "4294967296\n");
  has(machine, 4 * kGiB, "of this control group");
  machine.write("/sys/fs/cgroup/job/step/memory.max", "2147483648\n");
  has(machine, 2 * kGiB, "of this control group");
  machine.write("/sys/fs/cgroup/memory.max", "1073741824\n"); // as in a container
  has(machine, kGiB, "of this control group");
}

TEST(Memory, ControlGroupsOfTheFirstVersion) {
  Machine machine;
  machine.write("/proc/self/cgroup", "3:cpuset:/\n4:memory:/job\n0::/\n");
  machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); // none
  has(machine, 8 * kGiB, "free on this machine");
  machine.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4294967296\n");
  has(machine, 4 * kGiB, "of this control group");
}

TEST(Memory, FilesThatSayNothing) {
  Machine machine;
  machine.write("/proc/self/cgroup", "\n::\n0::\nx\n");
  machine.write("/sys/fs/cgroup/memory.max", "");
  has(machine, 8 * kGiB, "free on this machine");
}

TEST(Memory, MoreOfAnythingNeedsMore) {
  const CompileSize small{.stages = 8, .microbatches = 1024, .isSplit = false};
  CompileSize split = small, rings = small, stages = small, huge = small;
  split.isSplit = true;
  rings.anyRings = true;
  stages.stages = 16;
  huge.stages = huge.microbatches = int64_t(1) << 40; // no size is too large to be added up
  for (const CompileSize &more : {split, rings, stages, huge})
    EXPECT_GT(bytesToCompile(more), bytesToCompile(small));
  EXPECT_EQ(tooLargeHere(small), "");
  const std::string refused = tooLargeHere(huge);
  EXPECT_NE(refused.find("takes about 1048576 TiB of memory, found "), std::string::npos) << refused;
  EXPECT_NE(refused.find(": expected fewer microbatches or stages, or more memory"), std::string::npos) << refused;
}

} // namespace
} // namespace pipec
