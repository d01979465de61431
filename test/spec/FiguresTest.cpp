// The table of figures, and the keys that follow from it.
#include "runtime/plan/Figures.h"

#include "compiler/spec/Keys.h"
#include "test/spec/Expect.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace pipec::spec::test {
namespace {

TEST(Figures, aKeyStandsWhereverARowHasHelp) {
  for (const plan::FigureRow &row : plan::kFigureTable) {
    const std::string_view map = row.unit == plan::FigureUnit::Time ? "costs" : "tensors";
    const std::pair<std::string_view, plan::FigureOwner> places[] = {
        {map, plan::kOfStages}, {"layers[]", plan::kOfLayers}, {"layers[].splits[]", plan::kOfSplits}};
    for (const auto &[parent, owner] : places) {
      const std::string_view help = plan::helpOf(row, owner);
      const Key *key = findKey(fmt::format("{}.{}", parent, row.key));
      ASSERT_EQ(key != nullptr, !help.empty()) << parent << " " << row.key;
      if (key) {
        EXPECT_EQ(key->description, help);
        EXPECT_EQ(key->type == Type::Duration, row.unit == plan::FigureUnit::Time) << key->path;
        EXPECT_EQ(key->figure.has_value(), parent == map) << key->path;
      }
    }
  }
}

TEST(Figures, aSumStaysOneOverItsLimit) {
  plan::Figures one, other;
  one.set(Figure::Forward, limits::kTime);
  one.set(Figure::Weights, limits::kBytes - 1);
  other.set(Figure::Forward, 7);
  other.set(Figure::Weights, 1);
  one += other;
  EXPECT_EQ(one[Figure::Forward], limits::kTime + 1);
  EXPECT_EQ(one[Figure::Weights], limits::kBytes);
  EXPECT_FALSE(one.has(Figure::Backward));
  EXPECT_EQ(one[Figure::Backward], 0);
}

TEST(Figures, stagesAreTheSumsOfTheirLayersAndOfWhatStandsBesideThem) {
  const Spec spec =
      right("pipeline: {ranks: 2, microbatches: 2, cut: [1, 2]}\nschedule: 1f1b\n"
            "costs: {optimizer: 5ms}\ntensors: {static: [100B, 200B], boundary: 9B}\n"
            "layers:\n"
            "- {forward: 1ms, backward: 2ms, activation: 3B, weight_context: 4B, weights: 10B,\n"
            "   gradients: [1B, 2B], optimizer_state: 5B, optimizer: 1ms}\n"
            "- {count: 2, forward: 10ms, backward: 20ms, activation: 6B, boundary: 7B, recompute_input: 2B}\n")
          .at(0);
  constexpr int64_t kMs = 1'000'000'000;
  const auto of = [&](Figure figure) { return std::pair(spec[figure][0], spec[figure][1]); };
  const auto pair = [](int64_t one, int64_t other) { return std::pair(one, other); };
  EXPECT_EQ(of(Figure::Forward), pair(kMs, 20 * kMs));
  EXPECT_EQ(of(Figure::Backward), pair(2 * kMs, 40 * kMs));
  EXPECT_EQ(of(Figure::Recompute), pair(kMs, 20 * kMs)) << "the forward";
  EXPECT_EQ(of(Figure::Activation), pair(3, 12));
  EXPECT_EQ(of(Figure::WeightContext), pair(4, 0));
  EXPECT_EQ(of(Figure::RecomputeInput), pair(0, 4));
  EXPECT_EQ(of(Figure::Boundary), pair(9, 7));
  EXPECT_EQ(of(Figure::Gradients), pair(3, 0));
  EXPECT_EQ(of(Figure::Static), pair(118, 200));
  EXPECT_EQ(of(Figure::Optimizer), pair(6 * kMs, 5 * kMs));
  for (const Figure absent : {Figure::BackwardInput, Figure::Overlapped, Figure::BoundaryGradient})
    EXPECT_FALSE(spec.has(absent));
}

} // namespace
} // namespace pipec::spec::test
