// Bit for bit one process's loss and weights in every step, whoever owns and works what.
#include "test/tensor/TensorShards.h"

#include <gtest/gtest.h>

#include <limits>

using namespace pipec::test;

namespace {

constexpr int64_t kSteps = 12;

std::vector<Said> sayings(Shards &shards, int64_t first, int64_t end) {
  std::vector<Said> found;
  for (int64_t step = first; step < end; ++step) {
    EXPECT_EQ(shards.step(step), "");
    found.push_back(shards.said());
  }
  return found;
}

/// One process, one rank; its layers are all ranks' layers.
std::vector<Said> alone(int layers = 2, bool splitBackward = false) {
  Setting run;
  run.layers = layers;
  run.splitBackward = splitBackward;
  Shards shards(run);
  EXPECT_EQ(shards.creation(), "");
  return sayings(shards, 0, kSteps);
}

const std::vector<Said> &reference() {
  static const std::vector<Said> found = alone();
  return found;
}

Setting withShards(int shards) {
  Setting run;
  run.shards = shards;
  return run;
}

/// Equal, as `even` has it: the first ones have one more.
std::vector<int64_t> equal(int64_t units, int64_t shards) {
  std::vector<int64_t> parts;
  for (int64_t i = 0; i < shards; ++i)
    parts.push_back(units / shards + (i < units % shards));
  return parts;
}

Portions even(int shards) { return {cut(8, equal(8, shards)), cut(24, equal(24, shards)), R"({"name": "even"})"}; }

TEST(TensorBits, StepsChangeLossAndWeights) {
  for (size_t i = 1; i < reference().size(); ++i) {
    EXPECT_NE(reference()[i].loss, reference()[i - 1].loss);
    EXPECT_NE(reference()[i].hash, reference()[i - 1].hash);
  }
}

TEST(TensorBits, EvenPortionsOfTwoToFourShards) {
  for (int shards = 2; shards <= 4; ++shards) {
    Shards run(withShards(shards));
    ASSERT_EQ(run.portions(even(shards)), "");
    EXPECT_EQ(sayings(run, 0, kSteps), reference()) << shards << " shards";
  }
}

TEST(TensorBits, UnevenPortionsAndShardsWithoutUnits) {
  Shards run(withShards(3));
  ASSERT_EQ(run.portions({cut(8, {1, 0, 7}), cut(24, {0, 19, 5}), R"({"name": "auto"})"}), "");
  EXPECT_EQ(sayings(run, 0, kSteps), reference());
}

TEST(TensorBits, WorkedByOthersThanTheOwners) {
  Shards run(withShards(3));
  Portions portions{cut(8, {3, 3, 2}, {1, 3, 4}), cut(24, {8, 8, 8}, {2, 9, 13}), R"({"name": "migrate"})"};
  // The last shard's share, from places all over.
  portions.columns.worked = {{{0, 2}}, {{8, 8}, {20, 1}}, {{2, 6}, {16, 4}, {21, 3}}};
  ASSERT_EQ(run.portions(portions), "");
  EXPECT_EQ(sayings(run, 0, kSteps), reference());
  EXPECT_EQ(run.exchanges(), 1 + 2 * kSteps) << "gradients and weights at each update, weights to begin with";
}

TEST(TensorBits, PortionsThatChange) {
  Shards run(withShards(3));
  const Portions all[] = {even(3),
                          {cut(8, {1, 3, 4}), cut(24, {2, 10, 12}), R"({"name": "auto"})"},
                          {cut(8, {3, 3, 2}, {1, 4, 3}), cut(24, {8, 8, 8}, {3, 10, 11}), R"({"name": "migrate"})"},
                          {cut(8, {0, 0, 8}), cut(24, {24, 0, 0}), R"({"name": "auto"})"},
                          {cut(8, {3, 3, 2}, {8, 0, 0}), cut(24, {8, 8, 8}, {0, 0, 24}), R"({"name": "migrate"})"}};
  std::vector<Said> found;
  for (int64_t step = 0; step < kSteps; step += 2) {
    ASSERT_EQ(run.portions(all[step / 2 % 5]), "");
    for (const Said &said : sayings(run, step, step + 2))
      found.push_back(said);
  }
  EXPECT_EQ(found, reference());
}

TEST(TensorBits, SavedAndLoadedUnderOtherPortions) {
  Portions before{cut(8, {3, 3, 2}, {1, 4, 3}), cut(24, {8, 8, 8}, {3, 10, 11}), R"({"name": "migrate"})"};
  Portions behind{cut(8, {1, 3, 4}), cut(24, {2, 10, 12}), R"({"name": "auto"})"};
  Shards first(withShards(3)), second(withShards(3));
  ASSERT_EQ(first.portions(before), "");
  std::vector<Said> found = sayings(first, 0, 5);
  ASSERT_EQ(first.save(5), "");
  second.takeFiles(first);
  ASSERT_EQ(second.portions(before), "");
  ASSERT_EQ(second.load(5), "");
  ASSERT_EQ(second.portions(behind), "");
  for (const Said &said : sayings(second, 5, kSteps))
    found.push_back(said);
  EXPECT_EQ(found, reference());
}

TEST(TensorBits, OneProcessGoesOnFromItsFile) {
  Setting run;
  Shards first(run), second(run);
  std::vector<Said> found = sayings(first, 0, 5);
  ASSERT_EQ(first.save(5), "");
  second.takeFiles(first);
  ASSERT_EQ(second.load(5), "");
  for (const Said &said : sayings(second, 5, kSteps))
    found.push_back(said);
  EXPECT_EQ(found, reference());
}

TEST(TensorBits, WeightsOfABackwardInTwoParts) {
  EXPECT_EQ(alone(2, true), reference());
  Setting run = withShards(2);
  run.splitBackward = true;
  Shards shards(run);
  ASSERT_EQ(shards.portions({cut(8, {3, 5}, {4, 4}), cut(24, {10, 14}, {20, 4}), R"({"name": "migrate"})"}), "");
  EXPECT_EQ(sayings(shards, 0, kSteps), reference());
}

TEST(TensorBits, TwoRanksOfTwoShards) {
  Setting run = withShards(2);
  run.ranks = 2;
  run.layers = 1;
  for (bool splitBackward : {false, true}) {
    run.splitBackward = splitBackward;
    Shards shards(run);
    ASSERT_EQ(shards.portions({cut(8, {3, 5}), cut(24, {4, 20}), R"({"name": "auto"})"}), "");
    std::vector<Said> found = sayings(shards, 0, kSteps / 2);
    ASSERT_EQ(shards.portions(even(2)), "");
    for (const Said &said : sayings(shards, kSteps / 2, kSteps))
      found.push_back(said);
    EXPECT_EQ(found, reference());
  }
}

/// Weights so large that parts of sums have no room, which then count as the limit.
TEST(TensorBits, PartsBeyondTheLimit) {
  auto grown = [](Shards &run, int shards) {
    for (int shard = 0; shard < shards; ++shard)
      for (int32_t kind = 0; kind < 2; ++kind)
        for (int32_t u = 0; u < (kind ? 24 : 8); ++u) {
          Parameters found = parametersOf(run.object(shard), 0, 1, kind, u);
          for (int64_t i = 0; found.weights && i < found.size; ++i)
            found.weights[i] *= u % 3 == 0 ? 3e4f : 1;
        }
    std::vector<Said> said;
    for (int64_t step = 0; step < 4; ++step) {
      EXPECT_EQ(run.step(step), "");
      said.push_back(run.said());
    }
    return said;
  };
  Shards one((Setting())), three(withShards(3));
  ASSERT_EQ(three.portions({cut(8, {1, 3, 4}), cut(24, {2, 10, 12}), R"({"name": "auto"})"}), "");
  std::vector<Said> expected = grown(one, 1);
  EXPECT_EQ(grown(three, 3), expected);
  EXPECT_NE(expected[0], reference()[0]);
}

TEST(TensorBits, AccuracyWithEveryHundredAndTwentyEighthStep) {
  auto accuracies = [](Shards &run) {
    std::vector<double> found;
    for (int64_t step = 126; step < 129; ++step) {
      EXPECT_EQ(run.step(step), "");
      found.push_back(run.said().accuracy);
    }
    return found;
  };
  Shards one((Setting())), two(withShards(2));
  ASSERT_EQ(two.portions({cut(8, {3, 5}, {3, 5}, {2, 5}), cut(24, {10, 14}), R"({"name": "auto", "most": 0.2})"}), "");
  std::vector<double> expected = accuracies(one), left = accuracies(two);
  EXPECT_EQ(expected[0], -1);
  EXPECT_GE(expected[1], 0);
  EXPECT_EQ(expected[2], -1);
  EXPECT_GE(left[1], 0);
}

} // namespace
