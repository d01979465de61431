// The data, and that training learns from it.
#include "test/tensor/TensorShards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

using namespace pipec::test;

namespace {

constexpr int kPixels = 400, kClasses = 20;
using Image = std::array<uint8_t, kPixels>;

Image image(uint64_t set, int64_t number) {
  Image found;
  drawImage(found.data(), set, number);
  return found;
}

TEST(TensorGlyphs, AreTheSameEachTime) {
  EXPECT_EQ(image(1, 5), image(1, 5));
  EXPECT_NE(image(1, 5), image(1, 25)) << "one class, two images";
  EXPECT_NE(image(1, 5), image(2, 5)) << "one to train, one to test";
}

/// The class whose mean image is nearest is right far more often than by chance, and far from always.
TEST(TensorGlyphs, ClassesDiffer) {
  std::array<std::array<double, kPixels>, kClasses> means = {};
  for (int64_t i = 0; i < 100 * kClasses; ++i) {
    Image one = image(1, i);
    for (size_t p = 0; p < kPixels; ++p)
      means[size_t(i % kClasses)][p] += one[p] / 100.0;
  }
  int right = 0;
  for (int64_t i = 0; i < 400; ++i) {
    Image one = image(2, i);
    std::array<double, kClasses> off = {};
    for (size_t c = 0; c < kClasses; ++c)
      for (size_t p = 0; p < kPixels; ++p)
        off[c] += (one[p] - means[c][p]) * (one[p] - means[c][p]);
    right += std::min_element(off.begin(), off.end()) - off.begin() == i % kClasses;
  }
  EXPECT_GT(right, 400 / kClasses * 3);
  EXPECT_LT(right, 380);
}

TEST(TensorTraining, Learns) {
  Setting run;
  run.width = 32;
  run.columns = 64;
  run.samples = 32;
  run.values = R"("rate": 4e-3, "steps": 256)";
  Shards shards(run);
  ASSERT_EQ(shards.creation(), "");
  for (int64_t step = 0; step < 256; ++step)
    ASSERT_EQ(shards.step(step), "");
  EXPECT_GT(shards.said().accuracy, 0.3) << "chance is 0.05";
}

TEST(TensorMemory, IsWhatUnitsAndMicrobatchesTake) {
  Setting run;
  run.shards = 2;
  Shards shards(run);
  auto memory = [&](int shard) {
    PipecMemory found = {sizeof found, 0, 0, 0};
    pipec_stage_memory(shards.object(shard), &found);
    return found;
  };
  constexpr int64_t kShared = (2 * 4 * 16 + (25 + 16) * 16 + 22 * 16 + 20) * 16; // weights, gradients, two moments
  constexpr int64_t kHead = 4 * 2 * 16 + 6, kColumn = 2 * 16 + 1;
  EXPECT_EQ(memory(0).fixed, kShared);
  ASSERT_EQ(shards.portions({cut(8, {4, 4}, {1, 7}), cut(24, {12, 12}, {2, 22}), R"({"name": "migrate"})"}), "");
  EXPECT_EQ(memory(0).fixed, kShared + 2 * 16 * (4 * kHead + 12 * kColumn));
  EXPECT_EQ(memory(1).fixed, kShared + 2 * 16 * (4 * kHead + 12 * kColumn) + 2 * 8 * (3 * kHead + 10 * kColumn));
  ASSERT_EQ(shards.step(0), "");
  EXPECT_EQ(memory(0).live, 0);
  EXPECT_GT(memory(1).peak, memory(0).peak);
}

} // namespace
