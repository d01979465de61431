// The PTX that piperun carries is what clang makes of the kernels, and an assembler takes it.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>

namespace {

const std::string kFolder = PIPEC_SOURCE_DIR "/runtime/device/cuda/";

std::string read(const std::string &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What the command prints; its exit code is 0.
std::string run(const std::string &command) {
  std::string all;
  std::FILE *pipe = popen(command.c_str(), "r");
  std::array<char, 4096> block;
  for (size_t n; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;)
    all.append(block.data(), n);
  EXPECT_EQ(pclose(pipe), 0) << command << "\n" << all;
  return all;
}

TEST(Kernels, ThePtxIsMadeOfTheSource) {
  const std::string made = run("clang-19 -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_75 "
                               "--cuda-feature=+ptx63 -Wno-unknown-cuda-version -O2 -S -o - " +
                               kFolder + "kernels.cu");
  const std::string carried = read(kFolder + "kernels.ptx");
  EXPECT_TRUE(made == carried) << "make runtime/device/cuda/kernels.ptx again";
  EXPECT_LT(carried.size(), 8192u);
  EXPECT_NE(carried.find(".target sm_75"), std::string::npos);
}

TEST(Kernels, AnAssemblerTakesThePtx) {
  const std::string assembler = PIPEC_PTXAS;
  if (assembler.empty())
    GTEST_SKIP() << "no ptxas here";
  for (const char *gpu : {"sm_75", "sm_80", "sm_90", "sm_100"})
    run(assembler + " -arch=" + gpu + " " + kFolder + "kernels.ptx -o /dev/null 2>&1");
}

} // namespace
