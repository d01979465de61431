// Stage libraries that are wrong: what is said of each, and that saying it is all that happens.
#include "runtime/plan/Provider.h"
#include "runtime/stage/MakeStage.h"
#include "runtime/stage/library/Facts.h"
#include "test/runtime/Plans.h"

#include <gtest/gtest.h>

using namespace pipec;
using namespace pipec::runtime;

namespace {

std::string probe(const char *name) { return std::string(PIPEC_PROBES "/probe-") + name + ".so"; }

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

INSTANTIATE_TEST_SUITE_P(Library, WrongLibrary,
                         testing::Values(Wrong{"absent", "there is no such stage library"},
                                         Wrong{"version", "built for version 99 of pipec_stage.h, expected version 1"},
                                         Wrong{"no-forward", "has no pipec_stage_forward"},
                                         Wrong{"undefined", "cannot be loaded as a stage library: "},
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
  Status make(const std::string &provider) {
    EXPECT_TRUE(plan::providerOf(provider, plan.provider).ok());
    Status status = makeStage(probe("right"), {plan, 1, Pace::Real, device, clock, failure}, stage);
    device.start();
    return status;
  }
  std::string forward() {
    stage->issue(0, {&plan.variants.front().programs[1].operations[1], 3, 0, 0}, {});
    device.synchronize(0, 1);
    return failure.status().message;
  }

  plan::Plan plan = forwardOnly();
  Clock clock{Clock::monotonic()};
  Failure failure;
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
  plan::Operation backward{plan::Kind::Backward, plan::Payload::None, 1, -1, 0, 0, 0, 0, 0};
  stage->issue(0, {&backward, 0, 0, 0}, {});
  device.synchronize(0, 1);
  EXPECT_EQ(failure.status().message, "rank 1: BW stage 1 microbatch 0: the stage library has no function for BW");
}

TEST_F(ProbeTest, SaysItsNormAndIsToldTheGlobalOne) {
  ASSERT_TRUE(make("").ok());
  plan::Operation reduce{plan::Kind::AllReduce, plan::Payload::None, 1, -1, 0, 0, 8, 0, 0};
  EXPECT_EQ(stage->gradientNorm({&reduce, 0, 4, 0}), 6.5);
  stage->setGlobalNorm({&reduce, 0, 4, 0}, 99);
  EXPECT_FALSE(failure.raised());
  stage->setGlobalNorm({&reduce, 0, 4, 0}, 101);
  EXPECT_EQ(failure.status().message, "rank 1: all_reduce: 101 in step 4 is too much");
}

TEST_F(ProbeTest, AnErrorOfSaveIsPassedOn) {
  ASSERT_TRUE(make("").ok());
  EXPECT_EQ(stage->save("/tmp/x", 1).message, "rank 1: cannot save: the disk is on fire");
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
  EXPECT_EQ(microbatchesOf(plan), 4);
}

} // namespace
