// Stage libraries that are wrong: what is said of each, and that saying it is all that happens.
#include "runtime/plan/Layers.h"
#include "runtime/plan/Provider.h"
#include "runtime/stage/MakeStage.h"
#include "runtime/stage/library/Facts.h"
#include "runtime/stage/library/OwnTime.h"
#include "test/conformance/Implementations.h"
#include "test/plan/MakeShards.h"
#include "test/runtime/Plans.h"
#include "test/runtime/Replicated.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <utility>

using namespace pipec;
using namespace pipec::runtime;

namespace {

std::string probe(const char *name) { return test::built(std::string("test/conformance/probe-") + name + ".so"); }

plan::Plan forwardOnly() {
  plan::Plan plan = test::makePlan({});
  for (plan::Program &program : plan.variants.front().programs)
    for (plan::Operation &op : program.operations)
      if (op.kind == plan::Kind::Backward)
        op.kind = plan::Kind::Forward;
  return plan;
}

struct Wrong {
  const char *name;
  const char *says;
};
class WrongLibrary : public testing::TestWithParam<Wrong> {};

TEST_P(WrongLibrary, IsRefusedBeforeAnythingStarts) {
  Status status = checkStage(probe(GetParam().name), forwardOnly());
  EXPECT_EQ(status.code, Code::Usage);
  EXPECT_NE(status.message.find(GetParam().says), std::string::npos) << status.message;
  EXPECT_NE(status.message.find(probe(GetParam().name)), std::string::npos) << status.message;
}

INSTANTIATE_TEST_SUITE_P(
    Library, WrongLibrary,
    testing::Values(Wrong{"absent", "there is no such stage library"},
                    Wrong{"version", "built for version 3 of pipec_stage.h, expected version 2 or 1; build it again"},
                    Wrong{"no-forward", "has no pipec_stage_forward"},
                    Wrong{"undefined", "cannot be loaded as a stage library: "},
                    Wrong{"saves-alone", "has pipec_stage_save_layer and no pipec_stage_load_layer"},
                    Wrong{"loads-alone", "has pipec_stage_load_layer and no pipec_stage_save_layer"},
                    Wrong{"crashes", "ends the process with signal 6"},
                    Wrong{"leaves", "ends the process with exit code "}),
    [](const auto &info) {
      std::string name = info.param.name;
      std::erase(name, '-');
      return name;
    });

TEST(Library, MustHaveWhatThePlanUses) {
  EXPECT_TRUE(checkStage(probe("right"), forwardOnly()).ok());
  Status status = checkStage(probe("right"), test::makePlan({}));
  EXPECT_NE(status.message.find("has no pipec_stage_backward, and the plan has BW operations"), std::string::npos)
      << status.message;
}

TEST(Library, MustSaveLayersWhereTheCutIsToChange) {
  plan::Plan plan = forwardOnly();
  EXPECT_TRUE(checkStage(probe("layers"), plan, {.byLayers = true}).ok());
  EXPECT_TRUE(checkStage("synthetic", plan, {.byLayers = true}).ok());
  Status status = checkStage(probe("right"), plan, {.byLayers = true});
  EXPECT_EQ(status.code, Code::Usage);
  EXPECT_NE(status.message.find("has no pipec_stage_save_layer, which a new cut of the layers needs"),
            std::string::npos)
      << status.message;
}

test::Replicated twoLayers(int32_t degree) { return {.degree = degree, .layers = 2, .layerBytes = 400}; }

TEST(Library, MustKnowItsLayersWherePlansHaveReplicasOrPassesInParts) {
  EXPECT_TRUE(checkStage(probe("layer"), test::makeReplicated(twoLayers(2))).ok());
  for (const auto &[degree, what] : {std::pair(2, "replicas"), std::pair(1, "passes in parts")}) {
    const Status status = checkStage(probe("backward"), test::makeReplicated(twoLayers(degree)));
    EXPECT_EQ(status.code, Code::Input);
    EXPECT_NE(status.message.find(std::string("has no pipec_stage_layer, and the plan has ") + what), std::string::npos)
        << status.message;
  }
}

TEST(Library, MustTakePortionsWherePlansHaveShards) {
  const plan::Plan plan = plan::test::makeShards({});
  EXPECT_TRUE(checkStage("synthetic", plan).ok());
  EXPECT_TRUE(checkStage(probe("portions"), plan).ok());
  for (const char *name : {"backward", "first"}) {
    const Status status = checkStage(probe(name), plan);
    EXPECT_EQ(status.code, Code::Input);
    EXPECT_NE(status.message.find("has no pipec_stage_portions, and the plan has shards"), std::string::npos)
        << status.message;
  }
}

/// The other shards of a rank, played: each sum is as if they had brought nothing.
class Alone final : public ShardGroup {
public:
  int32_t shard() const override { return 1; }
  int32_t shards() const override { return 2; }
  void begin(const Label &label) override { calls += label.operation ? "within an instruction " : "within portions "; }
  void end() override { calls += "end "; }
  std::string meet(plan::Time, plan::Time &) override { return "not asked for"; }
  std::string sum(std::byte *, int64_t count, Number type) override {
    calls += fmt::format("sum {}x{} ", count, sizeOf(type));
    return {};
  }
  std::string scatter(const std::byte *, int64_t count, Number type, std::byte *) override {
    calls += fmt::format("scatter {}x{} ", count, sizeOf(type));
    return {};
  }
  std::string gather(const std::byte *, int64_t count, Number type, std::byte *) override {
    calls += fmt::format("gather {}x{} ", count, sizeOf(type));
    return {};
  }
  std::string exchange(const std::byte *, std::span<const int64_t> sent, std::byte *,
                       std::span<const int64_t> received) override {
    calls += fmt::format("exchange {}+{} for {}+{} ", sent[0], sent[1], received[0], received[1]);
    return "the others are gone";
  }
  std::string calls;
};

TEST(Library, IsToldPortionsAndHasTheGroup) {
  plan::Plan plan = plan::test::makeShards({.make = {.ranks = 2}, .units = 5});
  plan::Variant &variant = plan.variants.front();
  Clock clock{Clock::monotonic()};
  Failure failure;
  Alone group;
  HostDevice device(layoutOf(plan, 3), clock, failure, false);
  std::unique_ptr<Stage> stage;
  const auto make = [&](const char *provider) {
    EXPECT_TRUE(plan::providerOf(provider, plan.provider).ok());
    return makeStage(probe("portions"),
                     {plan, 3, Pace::Real, device, clock, failure, nullptr, kEmulatedPayload, &group}, stage)
        .message;
  };
  EXPECT_EQ(make(R"({"at": "shards"})"), "rank 1 shard 1: shard 1 of 2, 4 processes, group 1 of 2");
  ASSERT_EQ(make(""), "");
  ASSERT_TRUE(stage->share(portionsOf(variant, 1), 0).ok());
  EXPECT_EQ(group.calls, "within portions sum 4x4 scatter 5x8 gather 6x4 end ");
  ASSERT_TRUE(stage->share(portionsOf(variant, 1), 4).ok());
  EXPECT_EQ(group.calls, "within portions sum 4x4 scatter 5x8 gather 6x4 end ") << "it has been told";
  variant.portions[2].owned = {{0, 1}, {3, 2}};
  EXPECT_EQ(stage->share(portionsOf(variant, 1), 7).message,
            "rank 1 shard 1: portions for step 7: heads of stage 1 layers 0+1 has 0+1 3+2 of 5, keeps 3");
  variant.balance = R"({"name": "wrong"})";
  EXPECT_EQ(stage->share(portionsOf(variant, 1), 8).message,
            "rank 1 shard 1: portions for step 8: the numbers of a sum are of type 7, expected 1 or 2");
  variant.balance = R"({"name": "negative"})";
  EXPECT_EQ(stage->share(portionsOf(variant, 1), 8).message,
            "rank 1 shard 1: portions for step 8: a sum of -1 numbers");
  variant.balance = R"({"name": "less"})";
  EXPECT_EQ(stage->share(portionsOf(variant, 1), 8).message,
            "rank 1 shard 1: portions for step 8: an exchange of less than no bytes");
  variant.balance = R"({"name": "gone"})";
  EXPECT_EQ(stage->share(portionsOf(variant, 1), 8).message,
            "rank 1 shard 1: portions for step 8: the others are gone");
}

TEST(OwnTime, IsWithoutWhatLiesBetweenAndStretchedWhereASlowShardComputes) {
  simulate::Scenario scenario;
  scenario.slow[0] = {{.percent = 300, .shard = 1}};
  const Clock clock(Clock::monotonic());
  Failure failure;
  const auto pass = [&](plan::Time time) {
    const plan::Time from = clock.now();
    while (clock.now() < from + time)
      ;
    return clock.now() - from;
  };
  for (const int32_t shard : {0, 1}) {
    OwnTime own(plan::Place{.shard = shard, .shards = 2}, clock, failure, &scenario);
    const plan::Time start = clock.now();
    own.begin();
    const plan::Time first = pass(1'000'000'000);
    own.pause();
    const plan::Time between = pass(2'000'000'000);
    own.resume();
    const plan::Time second = pass(500'000'000);
    own.pause();
    EXPECT_GE(own.own(), (first + second) * (shard == 1 ? 3 : 1));
    EXPECT_LE(own.own(), clock.now() - start - between);
    own.begin();
    own.pause();
    EXPECT_LT(own.own(), clock.now() - start - first - between - second) << "begins anew";
  }
}

TEST(Library, MustHaveTheLayersOfThePlan) {
  plan::Plan plan = test::makeReplicated(twoLayers(2));
  Clock clock{Clock::monotonic()};
  Failure failure;
  const auto said = [&](const char *provider) {
    EXPECT_TRUE(plan::providerOf(provider, plan.provider).ok());
    HostDevice device(layoutOf(plan, 1), clock, failure, false);
    std::unique_ptr<Stage> stage;
    return makeStage(probe("layer"), {plan, 1, Pace::Real, device, clock, failure}, stage).message;
  };
  const std::string stage = "rank 0 replica 1: stage 0 of the stage library: layer ";
  EXPECT_EQ(said(R"({"at": "nothing else"})"), "");
  EXPECT_EQ(said(R"({"at": "few"})"), stage + "1: there is no layer 1");
  EXPECT_EQ(said(R"({"at": "many"})"), stage + "2: is there, and the plan has 2 layers");
  EXPECT_EQ(said(R"({"at": "bytes"})"), stage + "0: has 396 bytes of gradients, the plan 400");
  EXPECT_EQ(said(R"({"at": "type"})"), stage + "0: its numbers are of type 7, expected 1 or 2");
  EXPECT_EQ(said(R"({"at": "nowhere"})"), stage + "0: has no gradients or no weights");
  for (plan::Layer &layer : plan.variants.front().layers)
    layer = {layer.stage, layer.gradients, 200, true};
  EXPECT_EQ(said(R"({"at": "nothing else"})"), stage + "0: has 400 bytes of weights, the plan 200");
}

TEST(Library, OfVersionOneIsForTheHost) {
  EXPECT_TRUE(checkStage(probe("first"), test::makePlan({})).ok());
  const Status status = checkStage(probe("first"), test::makePlan({}), {.onGpu = true});
  EXPECT_EQ(status.code, Code::Usage);
  EXPECT_NE(status.message.find("is built for version 1 of pipec_stage.h, expected version 2 with --device=cuda"),
            std::string::npos)
      << status.message;
}

TEST(Library, AStructHasWhatItsSizeCovers) {
  PipecSetup setup{};
  setup.size = sizeof setup;
  EXPECT_TRUE(PIPEC_STAGE_HAS(&setup, context));
  setup.size = offsetof(PipecSetup, context);
  EXPECT_FALSE(PIPEC_STAGE_HAS(&setup, context));
  EXPECT_TRUE(PIPEC_STAGE_HAS(&setup, device));
}

TEST(Library, WhatIsNoLibraryIsRefused) {
  plan::Plan plan = forwardOnly();
  EXPECT_NE(checkStage("/", plan).message.find("cannot be loaded"), std::string::npos);
  EXPECT_NE(checkStage("nonsense", plan).message.find("there is no such stage;"), std::string::npos);
  EXPECT_NE(checkStage("", plan).message.find("there is no such stage;"), std::string::npos);
  EXPECT_TRUE(checkStage("synthetic", plan).ok());
}

/// A stage of the probe, told what to do.
class ProbeTest : public testing::Test {
protected:
  Status make(const std::string &provider, const char *library = "right") {
    EXPECT_TRUE(plan::providerOf(provider, plan.provider).ok());
    Status status = makeStage(probe(library), {plan, 1, Pace::Real, device, clock, failure}, stage);
    if (!std::exchange(started, true))
      device.start();
    return status;
  }
  std::string forward() {
    stage->issue(0, {&plan.variants.front().programs[1].operations[1], 3, 0, 0}, {});
    device.synchronize(0, 1);
    return failure.status().message;
  }

  plan::Plan plan = forwardOnly();
  plan::Operation operation{}; // of a test's own; the device may look at it until it is gone
  Clock clock{Clock::monotonic()};
  Failure failure;
  bool started = false;
  std::unique_ptr<Stage> stage;
  HostDevice device{plan.variants.front().programs[1], clock, failure, false};
};

TEST_F(ProbeTest, WorksWhereItIsToldNothing) {
  ASSERT_TRUE(make("").ok());
  EXPECT_EQ(forward(), "");
  EXPECT_GT(stage->memory().fixed, 0);
}

TEST_F(ProbeTest, AnErrorOfCreateIsPassedOn) {
  EXPECT_EQ(make(R"({"at": "create"})").message, "rank 1: no stage for 1 of 2");
  EXPECT_EQ(stage, nullptr);
}

TEST_F(ProbeTest, IsToldTheLayersOfEachStage) {
  const std::string told = "; sizes 1 1, device -1, 1";
  EXPECT_EQ(make(R"({"at": "told"})").message, "rank 1: stage 1 has layers 0+0 of 0" + told);
  plan::Variant &variant = plan.variants.front();
  variant.stages = 4;
  variant.programs[0].stages = {0, 2};
  variant.programs[1].stages = {1, 3};
  variant.cut = {2, 1, 3, 5};
  EXPECT_EQ(make(R"({"at": "told"})").message, "rank 1: stage 3 has layers 6+5 of 11" + told);
}

TEST_F(ProbeTest, CreateMustMakeAStage) {
  EXPECT_EQ(make(R"({"make": "nothing"})").message, "rank 1: pipec_stage_create made no stage");
}

TEST_F(ProbeTest, AnErrorWithoutAMessageHasItsCode) {
  ASSERT_TRUE(make(R"({"at": "F"})").ok());
  EXPECT_EQ(forward(), "rank 1: F stage 1 microbatch 3: the stage library failed with code 3 and no message");
}

TEST_F(ProbeTest, AMessageWithoutAnEndIsCut) {
  ASSERT_TRUE(make(R"({"at": "F", "say": "long"})").ok());
  EXPECT_EQ(forward(), "rank 1: F stage 1 microbatch 3: " + std::string(511, 'x'));
}

TEST_F(ProbeTest, AMessageIsMadeOneLineOfPrintableText) {
  ASSERT_TRUE(make(R"({"at": "F", "say": "garbage"})").ok());
  EXPECT_EQ(forward(), "rank 1: F stage 1 microbatch 3: two lines, ???");
}

TEST_F(ProbeTest, WhatItHasNoFunctionForEndsTheRun) {
  ASSERT_TRUE(make("").ok());
  operation = {plan::Kind::Backward, plan::Payload::None, 1, -1, 0, 0, 0, 0, 0};
  stage->issue(0, {&operation, 0, 0, 0}, {});
  device.synchronize(0, 1);
  EXPECT_EQ(failure.status().message, "rank 1: BW stage 1 microbatch 0: the stage library has no function for BW");
}

TEST_F(ProbeTest, SaysItsNormAndIsToldTheGlobalOne) {
  ASSERT_TRUE(make("").ok());
  operation = {plan::Kind::AllReduce, plan::Payload::None, 1, -1, 0, 0, 8, 0, 0};
  const Slot number{device.allocate(sizeof(double)), sizeof(double)};
  stage->gradientNorm(0, {&operation, 0, 4, 0}, number, [] {});
  EXPECT_EQ(test::numberOf(device, number), 6.5);
  test::setNumber(device, number, 99);
  stage->setGlobalNorm(0, {&operation, 0, 4, 0}, number, [] {});
  EXPECT_FALSE(failure.raised());
  test::setNumber(device, number, 101);
  stage->setGlobalNorm(0, {&operation, 0, 4, 0}, number, [] {});
  EXPECT_EQ(failure.status().message, "rank 1: all_reduce: 101 in step 4 is too much");
}

TEST_F(ProbeTest, OneOfVersionOneIsToldWhatItKnows) {
  const std::vector<PipecStageFacts> facts = factsOf(plan, 1);
  EXPECT_EQ(make(R"({"at": "create"})", "first").message,
            fmt::format("rank 1: rank 1 of 2, 2 stages, 1 own, {} microbatches; stage 1 takes {} ps, sends {} bytes",
                        microbatchesOf(plan), facts.front().forward_time, facts.front().output_bytes));
  ASSERT_TRUE(make("", "first").ok());
  EXPECT_EQ(forward(), "");
  EXPECT_EQ(stage->memory().fixed, 17);
  EXPECT_EQ(stage->memory().live, 1);
  EXPECT_EQ(stage->memory().peak, 23);
  ASSERT_TRUE(make(R"({"do": "say"})", "first").ok());
  stage->issue(0, {&plan.variants.front().programs[1].operations[1], 3, 9, 0}, {});
  device.synchronize(0, 2);
  EXPECT_EQ(failure.status().message, "rank 1: F stage 1 microbatch 3: stage 1 microbatch 3 step 9, 0 and 0 bytes");
}

TEST_F(ProbeTest, ANormOfVersionOneIsANumber) {
  ASSERT_TRUE(make("", "first").ok());
  operation = {plan::Kind::AllReduce, plan::Payload::None, 1, -1, 0, 0, 8, 0, 0};
  const Slot number{device.allocate(sizeof(double)), sizeof(double)};
  stage->gradientNorm(0, {&operation, 0, 4, 0}, number, [] {});
  EXPECT_EQ(test::numberOf(device, number), 6.5);
  test::setNumber(device, number, 101);
  stage->setGlobalNorm(0, {&operation, 0, 4, 0}, number, [] {});
  EXPECT_EQ(failure.status().message, "rank 1: all_reduce: 101 in step 4 is too much");
}

TEST_F(ProbeTest, AnErrorOfSaveIsPassedOn) {
  ASSERT_TRUE(make("").ok());
  EXPECT_EQ(stage->save("/tmp/x", 1).message, "rank 1: cannot save: the disk is on fire");
}

TEST_F(ProbeTest, AnErrorOfALayerIsPassedOn) {
  ASSERT_TRUE(make("").ok());
  EXPECT_FALSE(stage->savesLayers());
  stage.reset();
  ASSERT_TRUE(make("", "layers").ok());
  EXPECT_TRUE(stage->savesLayers());
  EXPECT_EQ(stage->saveLayer(7, "/tmp/x", 1).message, "rank 1: cannot save layer 7: /tmp/x: no room for layer 7");
  EXPECT_EQ(stage->loadLayer(7, "/tmp/x", 2).message, "rank 1: cannot load layer 7: /tmp/x: not of step 2");
}

TEST(Facts, AreThePlansOfEachStage) {
  test::Pipeline pipeline;
  pipeline.ranks = 3;
  pipeline.bytes = 4096;
  plan::Plan plan = test::makePlan(pipeline);
  std::vector<PipecStageFacts> middle = factsOf(plan, 1), first = factsOf(plan, 0);
  ASSERT_EQ(middle.size(), 1u);
  EXPECT_EQ(middle[0].stage, 1);
  EXPECT_EQ(middle[0].input_bytes, 4096);
  EXPECT_EQ(middle[0].output_bytes, 4096);
  EXPECT_EQ(middle[0].forward_time, pipeline.forward);
  EXPECT_EQ(middle[0].backward_time, pipeline.backward);
  EXPECT_EQ(middle[0].backward_input_time, 0);
  EXPECT_EQ(middle[0].optimizer_time, pipeline.optimizer);
  EXPECT_EQ(middle[0].activation_bytes, 1 << 20);
  EXPECT_EQ(first[0].input_bytes, 0);
  EXPECT_EQ(first[0].output_bytes, 4096);
  EXPECT_EQ(first[0].input_gradient_bytes, 0);
  EXPECT_EQ(first[0].output_gradient_bytes, 4096);
  for (plan::Program &program : plan.variants.front().programs)
    for (plan::Operation &operation : program.operations)
      if (plan::isTransfer(operation.kind) && operation.of == plan::Payload::Backward)
        operation.bytes = operation.stage == (operation.kind == plan::Kind::Send ? 2 : 1) ? 64 : 0; // between 1 and 2
  middle = factsOf(plan, 1);
  EXPECT_EQ(middle[0].input_bytes, 4096);
  EXPECT_EQ(middle[0].output_bytes, 4096);
  EXPECT_EQ(middle[0].input_gradient_bytes, 0);
  EXPECT_EQ(middle[0].output_gradient_bytes, 64);
  EXPECT_EQ(microbatchesOf(plan), 4);
  EXPECT_EQ(middle[0].layers, 0);
}

TEST(Facts, LayersFollowTheCut) {
  plan::Plan plan = test::makePlan({.ranks = 3});
  plan::Variant &variant = plan.variants.front();
  EXPECT_EQ(plan::layersOf(variant), 0);
  EXPECT_EQ(plan::layersOf(variant, 1), plan::Layers{});
  variant.cut = {2, 4, 1};
  EXPECT_EQ(plan::layersOf(variant), 7);
  const std::vector<PipecStageFacts> last = factsOf(plan, 2);
  EXPECT_EQ(last[0].first_layer, 6);
  EXPECT_EQ(last[0].layers, 1);
  const plan::Layers middle = plan::layersOf(variant, 1);
  EXPECT_EQ(middle, (plan::Layers{2, 4}));
  EXPECT_TRUE(middle.has(2) && middle.has(5));
  EXPECT_FALSE(middle.has(1) || middle.has(6) || middle.has(-1));
  variant.cut = {INT32_MAX, INT32_MAX, 1}; // a file may say so
  EXPECT_EQ(plan::layersOf(variant), INT32_MAX);
  EXPECT_EQ(plan::layersOf(variant, 2).first, INT32_MAX);
}

} // namespace
