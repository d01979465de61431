// What is refused, and with which words.
#include "test/tensor/TensorShards.h"

#include <gtest/gtest.h>

#include <functional>

using namespace pipec::test;

namespace {

std::string refusal(const std::string &values) {
  Setting run;
  run.values = values;
  return Shards(run).creation();
}

TEST(TensorRefusal, ProviderValues) {
  EXPECT_EQ(refusal(""), "");
  EXPECT_EQ(refusal(R"("rate": "fast")"), "provider: rate must be a number");
  EXPECT_EQ(refusal(R"("decay": 2)"), "provider: decay is 2, expected 0 to 1");
  EXPECT_EQ(refusal(R"("steps": 1.5)"), "provider: steps is 1.5, expected a whole number");
  EXPECT_EQ(refusal(R"("seed": -1)"), "provider: seed is -1, expected 0 to 1e+15");
}

TEST(TensorRefusal, Sizes) {
  Setting run;
  run.width = 24;
  EXPECT_EQ(Shards(run).creation(), "provider: width is 24, samples is 16, expected multiples of 16");
  run.width = 16;
  run.patch = 3;
  EXPECT_EQ(Shards(run).creation(), "provider: patch is 3, expected a divisor of 20");
}

PipecSetup setupOf(const PipecStageFacts &facts) {
  PipecSetup setup = {};
  setup.size = sizeof setup;
  setup.ranks = setup.stages = 2;
  setup.own_count = 1;
  setup.own = &facts;
  setup.microbatches = 1;
  setup.provider = "null";
  setup.device = -1;
  setup.replicas = setup.shards = 1;
  return setup;
}

std::string creation(const PipecSetup &setup) {
  PipecStage *stage = nullptr;
  PipecError error = {};
  if (pipec_stage_create(&setup, &stage, &error))
    return error.message;
  pipec_stage_destroy(stage);
  return "";
}

TEST(TensorRefusal, Plans) {
  PipecStageFacts facts = {};
  facts.size = sizeof facts;
  EXPECT_EQ(creation(setupOf(facts)), "") << "no provider value must be there";
  facts.output_bytes = 64;
  EXPECT_EQ(creation(setupOf(facts)), "the plan's boundary is 64 bytes, samples x tokens x width x 4 is 131072");
  facts.output_bytes = 131072;
  EXPECT_EQ(creation(setupOf(facts)),
            "the plan's boundary_gradient is 0 bytes, samples x tokens x width x 4 is 131072");
  facts.output_bytes = 0;
  PipecSetup setup = setupOf(facts);
  setup.device = 0;
  EXPECT_EQ(creation(setup), "computes on the host alone");
  setup = setupOf(facts);
  setup.replicas = 2;
  EXPECT_EQ(creation(setup), "has shards, but no replicas");
  setup = setupOf(facts);
  setup.shards = 2;
  EXPECT_EQ(creation(setup), "has 2 shards and no group of them");
}

/// Two shards of one layer, cut in halves, and what is wrong with that.
class TensorPortions : public testing::Test {
protected:
  TensorPortions()
      : shards([] {
          Setting run;
          run.shards = 2;
          run.layers = 1;
          return run;
        }()) {
    for (int64_t units : {8, 24})
      for (int32_t shard = 0; shard < 2; ++shard) {
        ranges.push_back(std::make_unique<PipecUnits>(PipecUnits{shard * units / 2, units / 2}));
        PipecPortion portion = {};
        portion.size = sizeof portion;
        portion.shard = shard;
        portion.split = units == 8 ? "heads" : "columns";
        portion.units = units;
        portion.owned = portion.worked = ranges.back().get();
        portion.owned_count = portion.worked_count = 1;
        portion.kept = units / 2;
        portion.balance = R"({"name": "even"})";
        portion.layers = 1;
        portions.push_back(portion);
      }
  }

  std::string refusal(const std::function<void()> &change) {
    change();
    PipecError error = {};
    return pipec_stage_portions(shards.object(0), portions.data(), int32_t(portions.size()), &error) ? error.message
                                                                                                     : "";
  }

  Shards shards;
  std::vector<PipecPortion> portions;
  std::vector<std::unique_ptr<PipecUnits>> ranges;
};

TEST_F(TensorPortions, Right) {
  EXPECT_EQ(refusal([] {}), "");
}
TEST_F(TensorPortions, OfAnotherStage) {
  EXPECT_EQ(refusal([&] { portions[0].stage = 3; }), "a portion is of stage 3, which is not here");
}
TEST_F(TensorPortions, OfAnotherShard) {
  EXPECT_EQ(refusal([&] { portions[1].shard = 2; }), "a portion is of shard 2, of 2");
}
TEST_F(TensorPortions, OfAnUnknownSplit) {
  EXPECT_EQ(refusal([&] { portions[0].split = "experts"; }),
            "the plan has a split experts; layers here have heads and columns");
}
TEST_F(TensorPortions, OfOtherUnits) {
  EXPECT_EQ(refusal([&] { portions[0].units = 16; }), "split heads has 16 units in the plan and 8 here");
}
TEST_F(TensorPortions, OfOtherColumns) {
  EXPECT_EQ(refusal([&] { portions[2].units = 32; }),
            "split columns has 32 units in the plan and 24 here (the provider's columns)");
}
TEST_F(TensorPortions, OfOtherLayers) {
  EXPECT_EQ(refusal([&] { portions[0].layers = 2; }), "a portion is of layers 0 to 1 of stage 0, which has 1");
}
TEST_F(TensorPortions, UnitsBeyondTheLast) {
  EXPECT_EQ(refusal([&] { ranges[1]->count = 5; }),
            "stage 0 shard 1, split heads: units 4 to 8 owned; expected ascending ones below 8");
}
TEST_F(TensorPortions, UnitsTwice) {
  EXPECT_EQ(refusal([&] { ranges[1]->first = 3; }), "stage 0, split heads: unit 3 is owned by shards 0 and 1");
}
TEST_F(TensorPortions, UnitsOfNobody) {
  EXPECT_EQ(refusal([&] { portions[2].owned_count = 0; }), "stage 0 layer 0, split columns: no shard has unit 0");
}
TEST_F(TensorPortions, MoreKeptThanWorked) {
  EXPECT_EQ(refusal([&] { portions[0].kept = 5; }), "stage 0 shard 0, split heads: keeps 5 of 4 units");
}
TEST_F(TensorPortions, Twice) {
  EXPECT_EQ(refusal([&] { portions.push_back(portions[3]); }),
            "two portions of stage 0 shard 1 are of split columns in layer 0");
}
TEST_F(TensorPortions, Missing) {
  EXPECT_EQ(refusal([&] { portions.pop_back(); }), "no portion of stage 0 shard 1 is of split columns in layer 0");
}
TEST_F(TensorPortions, OfUnknownBalances) {
  EXPECT_EQ(refusal([&] { portions[0].balance = R"({"name": "odd"})"; }),
            "the plan's balance has name odd, which is not known here");
  EXPECT_EQ(refusal([&] { portions[0].balance = R"({"name": "resize", "impute": "best"})"; }),
            "the plan's balance has impute best, which is not known here");
  EXPECT_EQ(refusal([&] { portions[0].balance = R"({"name": "resize", "priority": "last"})"; }),
            "the plan's balance has priority last, which is not known here");
}
TEST_F(TensorPortions, LeavingOutWhereNothingMayBe) {
  EXPECT_EQ(refusal([&] { portions[0].kept = 3; }),
            "balance even keeps all units; stage 0 shard 0 keeps 3 of 4 of split heads");
}
TEST_F(TensorPortions, NotSaidAtAll) {
  EXPECT_EQ(shards.step(0), "pipec_stage_portions has not said which units are whose");
}
TEST_F(TensorPortions, FilesOfOtherUnits) {
  ASSERT_EQ(shards.portions({cut(8, {4, 4}), cut(24, {12, 12})}), "");
  ASSERT_EQ(shards.save(0), "");
  std::string error = shards.load(1);
  EXPECT_NE(error.find("is not the state of these stages and units after 1 steps"), std::string::npos) << error;
  ASSERT_EQ(shards.portions({cut(8, {5, 3}), cut(24, {12, 12})}), "");
  error = shards.load(0);
  EXPECT_NE(error.find("is not the state of these stages and units after 0 steps"), std::string::npos) << error;
}

} // namespace
