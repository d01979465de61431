// Portions that leave something out: units drawn anew each step, or inputs of matrices as FlexTP prunes them.
#include "test/tensor/TensorShards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

using namespace pipec::test;

namespace {

constexpr int64_t kEpoch = 256; // steps of 2 x 16 samples

Setting two(const std::string &values = "") {
  Setting run;
  run.shards = 2;
  run.values = values;
  return run;
}

std::vector<int32_t> chosen(const TakingPart &part) { return {part.chosen, part.chosen + part.active}; }
std::vector<int32_t> inputs(const TakingPart &part) { return {part.input, part.input + part.inputs}; }

// --- auto with most ---

const Portions kMost{cut(8, {4, 4}, {4, 4}, {3, 3}), cut(24, {8, 16}, {8, 16}, {6, 12}),
                     R"({"name": "auto", "most": 0.25})"};

TEST(TensorMost, DrawsUnitsAnewEachStep) {
  Shards run(two()), again(two());
  ASSERT_EQ(run.portions(kMost), "");
  ASSERT_EQ(again.portions(kMost), "");
  std::set<std::vector<int32_t>> drawn;
  std::set<int32_t> ever;
  for (int64_t step = 0; step < 10; ++step) {
    ASSERT_EQ(run.step(step), "");
    ASSERT_EQ(again.step(step), "");
    EXPECT_EQ(run.said(), again.said());
    for (int32_t layer = 0; layer < 2; ++layer)
      for (int shard = 0; shard < 2; ++shard) {
        TakingPart heads = takingPart(run.object(shard), 0, layer, 0),
                   columns = takingPart(run.object(shard), 0, layer, 1);
        EXPECT_EQ(heads.active, 3);
        EXPECT_EQ(columns.active, shard ? 12 : 6);
        EXPECT_EQ(heads.outputs, 3);
        EXPECT_EQ(heads.inputs, 16);
        EXPECT_FLOAT_EQ(heads.scale, 8.0f / 6);
        EXPECT_FLOAT_EQ(columns.scale, 24.0f / 18);
        for (int32_t unit : chosen(columns))
          EXPECT_EQ(unit >= 8, shard == 1);
        if (shard == 1 && layer == 0) {
          drawn.insert(chosen(columns));
          for (int32_t unit : chosen(columns))
            ever.insert(unit);
        }
      }
  }
  EXPECT_EQ(drawn.size(), 10u);
  EXPECT_EQ(ever.size(), 16u);
}

/// The mean over many draws is the output of all units.
TEST(TensorMost, ScalesWhatIsLeft) {
  Shards run(two());
  ASSERT_EQ(run.portions(kMost), "");
  constexpr int kDraws = 3000;
  for (int32_t kind = 0; kind < 2; ++kind) {
    size_t size = size_t(outputSize(run.object(0)));
    std::vector<double> mean(size), one(size), all(size);
    for (int shard = 0; shard < 2; ++shard) {
      splitOutput(run.object(shard), 0, 0, kind, -1, one.data());
      for (size_t i = 0; i < size; ++i)
        all[i] += one[i];
      for (int64_t step = 0; step < kDraws; ++step) {
        splitOutput(run.object(shard), 0, 0, kind, step, one.data());
        for (size_t i = 0; i < size; ++i)
          mean[i] += one[i] / kDraws;
      }
    }
    double off = 0, length = 0;
    for (size_t i = 0; i < size; ++i) {
      off += (mean[i] - all[i]) * (mean[i] - all[i]);
      length += all[i] * all[i];
    }
    EXPECT_LT(std::sqrt(off / length), 0.03) << "split " << kind;
  }
}

/// What is left out of a step has no gradient in it.
TEST(TensorMost, LeavesGradientsOfTheRestAlone) {
  Shards run(two());
  ASSERT_EQ(run.portions(kMost), "");
  ASSERT_EQ(run.passes(0), "");
  for (int32_t kind = 0; kind < 2; ++kind) {
    std::vector<int32_t> in = chosen(takingPart(run.object(0), 0, 0, kind));
    for (int32_t unit = 0; unit < (kind ? 8 : 4); ++unit) {
      Parameters found = parametersOf(run.object(0), 0, 0, kind, unit);
      bool any = std::any_of(found.gradients, found.gradients + found.size, [](float g) { return g != 0; });
      EXPECT_EQ(any, std::count(in.begin(), in.end(), unit) == 1) << kind << ", " << unit;
    }
  }
}

TEST(TensorMost, EvaluatesWithAllUnits) {
  Shards run(two()), whole(two());
  ASSERT_EQ(run.portions(kMost), "");
  for (int64_t step = 0; step < 4; ++step)
    ASSERT_EQ(run.step(step), "");
  ASSERT_EQ(run.save(4), "");
  whole.takeFiles(run);
  ASSERT_EQ(whole.portions({cut(8, {4, 4}), cut(24, {8, 16})}), "");
  ASSERT_EQ(whole.load(4), "");
  ASSERT_EQ(whole.portions({cut(8, {2, 6}), cut(24, {20, 4})}), "");
  EXPECT_EQ(run.accuracy(), whole.accuracy());
}

// --- resize ---

Portions resized(const std::string &more = "") {
  return {cut(8, {4, 4}, {4, 4}, {1, 4}), cut(24, {12, 12}, {12, 12}, {5, 12}), R"({"name": "resize")" + more + "}"};
}

TEST(TensorResize, PrunesInputsOfBothMatrices) {
  Shards run(two());
  ASSERT_EQ(run.portions(resized(R"(, "priority": "first")")), "");
  ASSERT_EQ(run.passes(0), "");
  TakingPart heads = takingPart(run.object(0), 0, 1, 0), columns = takingPart(run.object(0), 0, 1, 1);
  EXPECT_EQ(heads.active, 4) << "all units are computed";
  EXPECT_EQ(columns.active, 12);
  EXPECT_EQ(inputs(heads), (std::vector<int32_t>{0, 1, 2, 3})) << "a quarter of 16";
  EXPECT_EQ(inputs(columns).size(), 7u) << "5 twelfths of 16, rounded up";
  EXPECT_EQ(heads.outputs, 1);
  EXPECT_EQ(columns.outputs, 5);
  EXPECT_EQ(columns.scale, 1);
  TakingPart other = takingPart(run.object(1), 0, 1, 1);
  EXPECT_EQ(other.inputs, 16);
  EXPECT_EQ(other.outputs, 12);
  // Gradients: input columns 7 to 15 of rows that have any; the output rows from the fifth on, whose input rows then
  // have none at all.
  for (int32_t unit = 0; unit < 12; ++unit) {
    Parameters found = parametersOf(run.object(0), 0, 1, 1, unit);
    for (int64_t k = 0; k < 32; ++k)
      EXPECT_EQ(found.gradients[k] != 0, unit < 5 && (k < 7 || k >= 16)) << unit << ", " << k;
  }
}

/// The sum of a shard without its missing inputs, computed another way.
TEST(TensorResize, PartsAreOfWhatIsLeft) {
  Shards pruned(two()), cleared(two());
  ASSERT_EQ(pruned.portions(resized(R"(, "priority": "first")")), "");
  ASSERT_EQ(cleared.portions({cut(8, {4, 4}), cut(24, {12, 12})}), "");
  for (int32_t unit = 0; unit < 12; ++unit) {
    Parameters found = parametersOf(cleared.object(0), 0, 0, 1, unit);
    for (int64_t k = 7; k < 16; ++k)
      found.weights[k] = 0;
    for (int64_t k = 16; k < 32 && unit >= 5; ++k)
      found.weights[k] = 0;
  }
  std::vector<double> one(size_t(outputSize(pruned.object(0)))), other(one.size());
  splitOutput(pruned.object(0), 0, 0, 1, 0, one.data());
  splitOutput(cleared.object(0), 0, 0, 1, 0, other.data());
  for (size_t i = 0; i < one.size(); ++i)
    ASSERT_NEAR(one[i], other[i], 1e-6);
}

/// Moments after the first step are a tenth of the gradients.
TEST(TensorResize, ImputesTheAverage) {
  Shards run(two()), zero(two());
  ASSERT_EQ(run.portions(resized(R"(, "priority": "first", "impute": "average")")), "");
  ASSERT_EQ(zero.portions(resized(R"(, "priority": "first")")), "");
  ASSERT_EQ(run.step(0), "");
  ASSERT_EQ(zero.step(0), "");
  for (int32_t unit = 0; unit < 12; ++unit) {
    Parameters found = parametersOf(run.object(0), 0, 0, 1, unit), plain = parametersOf(zero.object(0), 0, 0, 1, unit);
    double mean = std::accumulate(plain.moments, plain.moments + 7, 0.0) / 7;
    for (int64_t k = 0; k < 16; ++k)
      EXPECT_NEAR(found.moments[k], k < 7 ? plain.moments[k] : mean, 1e-7) << unit << ", " << k;
    for (int64_t k = 7; k < 16; ++k)
      EXPECT_EQ(plain.moments[k], 0);
    for (int64_t k = 16; k < 32; ++k) {
      double column = 0;
      for (int32_t kept = 0; kept < 5; ++kept)
        column += parametersOf(zero.object(0), 0, 0, 1, kept).moments[k] / 5;
      EXPECT_NEAR(found.moments[k], unit < 5 ? plain.moments[k] : column, 1e-7) << unit << ", " << k;
    }
  }
}

/// What was computed last: in the whole first epoch.
TEST(TensorResize, ImputesTheSameAsLast) {
  Shards run(two(R"("full_epochs": 1)"));
  ASSERT_EQ(run.portions(resized(R"(, "priority": "first", "impute": "same")")), "");
  ASSERT_EQ(run.step(0), "");
  EXPECT_EQ(takingPart(run.object(0), 0, 0, 1).inputs, 16);
  auto moments = [&](int32_t unit) {
    Parameters found = parametersOf(run.object(0), 0, 0, 1, unit);
    return std::vector<float>(found.moments, found.moments + found.size);
  };
  std::vector<std::vector<float>> before;
  for (int32_t unit = 0; unit < 12; ++unit)
    before.push_back(moments(unit));
  ASSERT_EQ(run.step(kEpoch), "");
  EXPECT_EQ(takingPart(run.object(0), 0, 0, 1).inputs, 7);
  for (int32_t unit = 0; unit < 12; ++unit)
    for (size_t k = 0; k < 32; ++k) {
      float now = moments(unit)[k], then = before[size_t(unit)][k];
      bool missing = k < 16 ? k >= 7 : unit >= 5;
      if (missing) {
        EXPECT_NEAR(now, 1.9f * then, 1e-6f + 1e-4f * std::fabs(then)) << unit << ", " << k;
      }
    }
}

TEST(TensorResize, RandomPriorityIsDrawnEachEpoch) {
  Shards run(two());
  ASSERT_EQ(run.portions(resized(R"(, "priority": "random")")), "");
  std::set<std::vector<int32_t>> lists;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    ASSERT_EQ(run.step(epoch * kEpoch), "");
    std::vector<int32_t> list = inputs(takingPart(run.object(0), 0, 0, 1));
    ASSERT_EQ(run.step(epoch * kEpoch + 1), "");
    EXPECT_EQ(inputs(takingPart(run.object(0), 0, 0, 1)), list) << "within an epoch";
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
    lists.insert(list);
  }
  EXPECT_EQ(lists.size(), 4u);
}

/// Scores by hand: of shard 0's rows, how far they are from where they were.
class Changes {
public:
  explicit Changes(Shards &run) : run(run), score(16), begin(12) { remember(); }
  void remember() {
    for (int32_t unit = 0; unit < 12; ++unit) {
      Parameters found = parametersOf(run.object(0), 0, 0, 1, unit);
      begin[size_t(unit)].assign(found.weights, found.weights + 32);
    }
  }
  /// Ends an epoch in which these took part.
  void end(const std::vector<int32_t> &seen) {
    for (int32_t k : seen) {
      score[size_t(k)] = 0;
      for (int32_t unit = 0; unit < 12; ++unit)
        score[size_t(k)] += std::fabs(double(parametersOf(run.object(0), 0, 0, 1, unit).weights[k]) -
                                      double(begin[size_t(unit)][size_t(k)]));
    }
    remember();
  }
  std::vector<int32_t> best(size_t count) const {
    std::vector<int32_t> order(16);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      double x = score[size_t(a)], y = score[size_t(b)];
      return x != y ? x > y : a < b;
    });
    order.resize(count);
    std::sort(order.begin(), order.end());
    return order;
  }

private:
  Shards &run;
  std::vector<double> score;
  std::vector<std::vector<float>> begin;
};

TEST(TensorResize, ChangePriorityIsOfWeightsSinceTheEpochBegan) {
  Shards run(two(R"("full_epochs": 1)"));
  ASSERT_EQ(run.portions(resized()), "");
  Changes changes(run);
  std::vector<int32_t> seen(16);
  std::iota(seen.begin(), seen.end(), 0);
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    for (int64_t step = epoch * kEpoch; step < epoch * kEpoch + 3; ++step) {
      ASSERT_EQ(run.step(step), "");
      EXPECT_EQ(inputs(takingPart(run.object(0), 0, 0, 1)), seen) << "step " << step;
    }
    changes.end(seen);
    seen = changes.best(7);
  }
}

TEST(TensorResize, WholeShardsAreScoredToo) {
  Shards run(two());
  ASSERT_EQ(run.portions(resized()), "");
  ASSERT_EQ(run.step(0), "");
  EXPECT_EQ(inputs(takingPart(run.object(0), 0, 0, 1)), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6}));
  // In the next epoch the other shard is slow: its list comes from what changed in this one.
  Portions other = resized();
  other.heads.kept = {4, 1};
  other.columns.kept = {12, 5};
  ASSERT_EQ(run.portions(other), "");
  ASSERT_EQ(run.step(kEpoch), "");
  EXPECT_EQ(takingPart(run.object(0), 0, 0, 1).inputs, 16);
  EXPECT_EQ(takingPart(run.object(1), 0, 0, 1).inputs, 7);
  EXPECT_NE(inputs(takingPart(run.object(1), 0, 0, 1)), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6}));
}

// --- semi ---

TEST(TensorSemi, LeavesOutByPriorityWhatDoesNotMove) {
  Shards run(two());
  Portions portions{cut(8, {4, 4}, {3, 5}, {1, 5}), cut(24, {12, 12}, {8, 16}, {5, 16}),
                    R"({"name": "semi", "priority": "first"})"};
  ASSERT_EQ(run.portions(portions), "");
  ASSERT_EQ(run.step(0), "");
  TakingPart slow = takingPart(run.object(0), 0, 0, 1), other = takingPart(run.object(1), 0, 0, 1);
  EXPECT_EQ(slow.active, 8);
  EXPECT_EQ(slow.inputs, 10);
  EXPECT_EQ(slow.outputs, 5);
  EXPECT_EQ(other.active, 16);
  EXPECT_EQ(other.inputs, 16);
  // Units 8 to 11 are the first shard's, computed whole by the other one.
  for (int32_t unit = 0; unit < 12; ++unit) {
    Parameters found = parametersOf(run.object(0), 0, 0, 1, unit);
    ASSERT_NE(found.moments, nullptr);
    EXPECT_EQ(found.moments[15] != 0, unit >= 8) << unit;
    EXPECT_EQ(found.moments[16] != 0, unit < 5 || unit >= 8) << unit;
  }
}

} // namespace
