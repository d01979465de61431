// Gradients beside central differences of the loss: along the gradient itself, for each kind of rows, and of single
// numbers. The network computes in float32, so a difference is good to some parts in a thousand.
#include "test/tensor/TensorShards.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace pipec::test;

namespace {

class TensorGradient : public testing::Test {
protected:
  TensorGradient()
      : shards([] {
          Setting run;
          run.microbatches = 1;
          run.values = R"("smoothing": 0.1)";
          return run;
        }()) {}

  double loss() {
    EXPECT_EQ(shards.passes(3), "");
    double found = lossOf(shards.object(0));
    forgetStep(shards.object(0), 0);
    return found;
  }

  /// A part of the numbers of some parameters: the gradient's length, and what differences along it say of it.
  void alongGradient(int32_t layer, int32_t kind, int32_t unit, int64_t first, int64_t count, const char *what) {
    ASSERT_EQ(shards.passes(3), "");
    Parameters found = parametersOf(shards.object(0), 0, layer, kind, unit);
    ASSERT_LE(first + count, found.size);
    std::vector<double> gradient(found.gradients + first, found.gradients + first + count);
    forgetStep(shards.object(0), 0);
    double length = 0;
    for (double g : gradient)
      length += g * g;
    length = std::sqrt(length);
    ASSERT_GT(length, 0) << what;
    // Far enough that rounding is small, near enough that the curve is.
    double way = std::min(0.05, 4e-3 / length);
    std::vector<float> kept(found.weights + first, found.weights + first + count);
    auto at = [&](double factor) {
      for (int64_t i = 0; i < count; ++i)
        found.weights[first + i] = kept[size_t(i)] + float(factor * gradient[size_t(i)] / length);
      return loss();
    };
    double difference = (at(way) - at(-way)) / (2 * way);
    at(0);
    EXPECT_NEAR(difference / length, 1, 0.02) << what << ", gradient of length " << length;
  }

  Shards shards;
};

TEST_F(TensorGradient, OfAttention) {
  constexpr int64_t kWidth = 16, kDepth = 2;
  for (int32_t layer = 0; layer < 2; ++layer)
    for (int32_t head : {0, 3, 7}) {
      alongGradient(layer, 0, head, 0, kDepth * kWidth, "queries");
      alongGradient(layer, 0, head, kDepth * kWidth, kDepth * kWidth, "keys");
      alongGradient(layer, 0, head, 2 * kDepth * kWidth, kDepth * kWidth, "values");
      alongGradient(layer, 0, head, 3 * kDepth * kWidth, kDepth * kWidth, "output");
      alongGradient(layer, 0, head, 4 * kDepth * kWidth, kDepth, "biases of queries");
      alongGradient(layer, 0, head, 4 * kDepth * kWidth + 2 * kDepth, kDepth, "biases of values");
    }
}

TEST_F(TensorGradient, OfTheMlp) {
  for (int32_t layer = 0; layer < 2; ++layer)
    for (int32_t column : {0, 11, 23}) {
      alongGradient(layer, 1, column, 0, 16, "input row");
      alongGradient(layer, 1, column, 16, 16, "output row");
      alongGradient(layer, 1, column, 32, 1, "bias");
    }
}

TEST_F(TensorGradient, OfWhatAllShardsHold) {
  for (int32_t layer = 0; layer < 2; ++layer)
    for (int64_t part = 0; part < 4; ++part)
      alongGradient(layer, 2, 0, 16 * part, 16, "norms");
  alongGradient(0, 3, 0, 0, 16 * 25, "embedding");
  alongGradient(0, 3, 0, 16 * 25, 16 * 16, "places");
  alongGradient(0, 4, 0, 0, 16, "gain before the classifier");
  alongGradient(0, 4, 0, 16, 16, "shift before the classifier");
  alongGradient(0, 4, 0, 32, 20 * 16, "classifier");
  alongGradient(0, 4, 0, 32 + 20 * 16, 20, "biases of the classifier");
}

/// Keys' biases move all scores of a token alike, so they change nothing.
TEST_F(TensorGradient, OfKeysBiasesIsNothing) {
  ASSERT_EQ(shards.passes(3), "");
  Parameters found = parametersOf(shards.object(0), 0, 0, 0, 0);
  for (int64_t i = 4 * 32 + 2; i < 4 * 32 + 4; ++i)
    EXPECT_NEAR(found.gradients[i], 0, 1e-7);
}

TEST_F(TensorGradient, OfSingleNumbers) {
  for (int32_t kind : {0, 1})
    for (int64_t i : {1, 17, 30}) {
      ASSERT_EQ(shards.passes(3), "");
      Parameters found = parametersOf(shards.object(0), 0, 1, kind, 5);
      double gradient = found.gradients[i], way = 0.03;
      forgetStep(shards.object(0), 0);
      float kept = found.weights[i];
      found.weights[i] = kept + float(way);
      double above = loss();
      found.weights[i] = kept - float(way);
      double below = loss();
      found.weights[i] = kept;
      EXPECT_NEAR((above - below) / (2 * way), gradient, 0.02 * std::fabs(gradient) + 2e-5) << kind << ", " << i;
    }
}

} // namespace
