// What every stage promises (runtime/stage/Stage.h): the middle one of three ranks, so that it has both neighbours.
#include "runtime/plan/Provider.h"
#include "test/conformance/Implementations.h"
#include "test/runtime/Plans.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

using namespace pipec;
using namespace pipec::runtime;
using namespace pipec::test;
using plan::Kind;

namespace {

constexpr int64_t kMicrobatches = 4;
using Data = std::vector<std::byte>;

class StageConformance : public StageSuite {
protected:
  void SetUp() override {
    StageSuite::SetUp();
    if (IsSkipped() || HasFatalFailure())
      return;
    Pipeline pipeline;
    pipeline.ranks = 3;
    pipeline.microbatches = kMicrobatches;
    pipeline.bytes = GetParam().boundary;
    pipeline.forward = pipeline.backward = pipeline.optimizer = 0;
    made = makePlan(pipeline);
    // Fused backwards; beside them the split ones, which a plan has instead.
    for (plan::Program &program : made.variants.front().programs)
      for (Kind kind : {Kind::BackwardInput, Kind::BackwardWeight})
        program.operations.push_back({kind, plan::Payload::None, program.rank, -1, 0, 0, 0, 0, 0});
    ASSERT_TRUE(plan::providerOf(GetParam().provider, made.provider).ok());
  }

  /// One stage and its transfer buffers.
  struct Run {
    Run(const StageImplementation &implementation, const plan::Plan &plan, int32_t rank = 1)
        : program(plan.variants.front().programs[size_t(rank)]), under(implementation.make(plan, rank)),
          in{under->device().allocate(implementation.boundary), implementation.boundary},
          out{under->device().allocate(implementation.boundary), implementation.boundary} {}

    const plan::Operation *operation(Kind kind) const {
      for (const plan::Operation &op : program.operations)
        if (op.kind == kind)
          return &op;
      throw std::logic_error("the plan has no such operation");
    }
    void issue(const Label &label, const StageSlots &slots) {
      under->stage().issue(0, label, slots);
      issued.add(under->device(), 0);
    }
    /// Runs one call to its end and returns what it sends.
    Data call(Kind kind, int64_t microbatch) {
      Label label{operation(kind), microbatch, step, 0};
      StageSlots slots;
      if (kind != Kind::BackwardWeight && kind != Kind::Optimizer)
        slots = {in, out};
      if (slots.in.data) {
        under->fillInput(in, label);
        fill(under->device(), out, std::byte(0));
      }
      const Data before = bytesOf(under->device(), in);
      issue(label, slots);
      EXPECT_TRUE(issued.synchronize(under->device(), 0, ++count)) << under->failure().status().message;
      EXPECT_EQ(bytesOf(under->device(), in), before) << "the input was written";
      return slots.out.data ? bytesOf(under->device(), out) : Data{};
    }
    /// All forwards, then all backwards, then the optimizer; all that was sent.
    std::vector<Data> wholeStep(bool split) {
      std::vector<Data> sent;
      for (int64_t m = 0; m < kMicrobatches; ++m)
        sent.push_back(call(Kind::Forward, m));
      for (int64_t m = 0; m < kMicrobatches; ++m)
        sent.push_back(call(split ? Kind::BackwardInput : Kind::Backward, m));
      for (int64_t m = 0; split && m < kMicrobatches; ++m)
        call(Kind::BackwardWeight, m);
      call(Kind::Optimizer, 0);
      ++step;
      return sent;
    }

    const plan::Program &program;
    std::unique_ptr<StageUnderTest> under;
    Slot in, out;
    Issued issued;
    int64_t step = 0;
    int64_t count = 0;
  };

  std::string path(const char *name) const { return (folder / name).string(); }

  plan::Plan made;
};

TEST_P(StageConformance, EveryCallCountsOne) {
  Run run(GetParam(), made);
  Label label{run.operation(Kind::Forward), 0, 0, 0};
  run.under->fillInput(run.in, label);
  run.issue(label, {run.in, run.out});
  run.issue({run.operation(Kind::BackwardWeight), 0, 0, 0}, {});
  run.issue({run.operation(Kind::Optimizer), 0, 0, 0}, {});
  EXPECT_TRUE(run.issued.synchronize(run.under->device(), 0, 3));
}

TEST_P(StageConformance, TheSameCallsSendTheSameBytes) {
  Run a(GetParam(), made), b(GetParam(), made);
  for (int step = 0; step < 3; ++step) {
    std::vector<Data> sent = a.wholeStep(true);
    EXPECT_EQ(b.wholeStep(true), sent);
    for (const Data &each : sent)
      EXPECT_NE(each, Data(each.size(), std::byte(0)));
  }
}

TEST_P(StageConformance, AFusedBackwardSendsWhatASplitOneDoes) {
  Run split(GetParam(), made), fused(GetParam(), made);
  for (int step = 0; step < 3; ++step)
    EXPECT_EQ(split.wholeStep(true), fused.wholeStep(false));
}

// What all ranks say adds up to something that each takes: here 6, the synthetic stage's of three ranks.
TEST_P(StageConformance, SaysItsNormAndTakesTheGlobalOne) {
  Run run(GetParam(), made);
  run.wholeStep(true);
  plan::Operation reduce{Kind::AllReduce, plan::Payload::None, 1, -1, 0, 0, 8, 0, 0};
  const Slot number{run.under->device().allocate(sizeof(double)), sizeof(double)};
  setNumber(run.under->device(), number, -1);
  run.under->stage().gradientNorm(0, {&reduce, 0, 0, 0}, number, [] {});
  run.under->settle(0);
  EXPECT_GE(numberOf(run.under->device(), number), 0);
  setNumber(run.under->device(), number, 6);
  run.under->stage().setGlobalNorm(0, {&reduce, 0, 0, 0}, number, [] {});
  run.under->settle(0);
  EXPECT_FALSE(run.under->failure().raised()) << run.under->failure().status().message;
}

TEST_P(StageConformance, TrainingChangesWhatIsSent) {
  if (!GetParam().trains)
    GTEST_SKIP() << GetParam().name << " has no weights";
  Run run(GetParam(), made);
  Data first = run.wholeStep(true).front();
  run.step = 0; // the same input again
  EXPECT_NE(run.wholeStep(true).front(), first);
}

TEST_P(StageConformance, AfterAStepNothingIsHeldButWhatIsFixed) {
  Run run(GetParam(), made);
  StageMemory before = run.under->stage().memory();
  EXPECT_EQ(before.live, 0);
  run.wholeStep(true);
  StageMemory after = run.under->stage().memory();
  EXPECT_EQ(after.fixed, before.fixed);
  EXPECT_EQ(after.live, 0);
  if (GetParam().trains) {
    EXPECT_GT(after.fixed, 0);
    EXPECT_GE(after.peak, kMicrobatches * GetParam().boundary);
  }
}

TEST_P(StageConformance, ALoadedStageGoesOnWhereTheSavedOneStood) {
  Run saved(GetParam(), made), loaded(GetParam(), made);
  saved.wholeStep(true);
  saved.wholeStep(true);
  Status status = saved.under->stage().save(path("state"), 2);
  ASSERT_TRUE(status.ok()) << status.message;
  status = loaded.under->stage().load(path("state"), 2);
  ASSERT_TRUE(status.ok()) << status.message;
  loaded.step = 2;
  for (int step = 0; step < 2; ++step)
    EXPECT_EQ(saved.wholeStep(true), loaded.wholeStep(true));
}

TEST_P(StageConformance, AStateOfAnotherStepOrRankIsRefused) {
  Run one(GetParam(), made), other(GetParam(), made, 2);
  ASSERT_TRUE(one.under->stage().save(path("state"), 7).ok());
  EXPECT_FALSE(one.under->stage().load(path("state"), 6).ok());
  EXPECT_FALSE(other.under->stage().load(path("state"), 7).ok());
  EXPECT_TRUE(one.under->stage().load(path("state"), 7).ok());
}

TEST_P(StageConformance, AStateThatIsDamagedOrNotThereIsRefused) {
  Run run(GetParam(), made);
  ASSERT_TRUE(run.under->stage().save(path("state"), 1).ok());
  std::filesystem::resize_file(path("state"), std::filesystem::file_size(path("state")) - 1);
  EXPECT_FALSE(run.under->stage().load(path("state"), 1).ok());
  std::ofstream(path("empty"));
  EXPECT_FALSE(run.under->stage().load(path("empty"), 1).ok());
  Status status = run.under->stage().load(path("nothing"), 1);
  EXPECT_NE(status.message.find(path("nothing")), std::string::npos) << status.message;
}

TEST_P(StageConformance, WhatCannotBeSavedIsSaid) {
  Run run(GetParam(), made);
  for (const std::string &bad : {path("no/such/folder"), std::string("/dev/full")}) {
    Status status = run.under->stage().save(bad, 1);
    EXPECT_EQ(status.code, Code::Run);
    EXPECT_NE(status.message.find(bad), std::string::npos) << status.message;
  }
}

TEST_P(StageConformance, AStateOfAnotherLayerOrStepIsRefused) {
  made.variants.front().cut = {1, 2, 1}; // stage 1 has the layers 1 and 2
  Run run(GetParam(), made);
  Stage &stage = run.under->stage();
  ASSERT_TRUE(stage.savesLayers());
  auto says = [](const Status &status, const std::string &what) {
    EXPECT_NE(status.message.find(what), std::string::npos) << status.message;
  };
  ASSERT_TRUE(stage.saveLayer(1, path("state"), 7).ok());
  says(stage.loadLayer(1, path("state"), 6), "is not the state of layer 1 after 6 steps");
  says(stage.loadLayer(2, path("state"), 7), "is not the state of layer 2 after 7 steps");
  for (const int32_t elsewhere : {-1, 0, 3, 4, INT32_MAX}) {
    EXPECT_FALSE(stage.saveLayer(elsewhere, path("other"), 7).ok());
    says(stage.loadLayer(elsewhere, path("state"), 7), "layer " + std::to_string(elsewhere));
  }
  EXPECT_FALSE(std::filesystem::exists(path("other")));
  EXPECT_FALSE(stage.load(path("state"), 7).ok());
  EXPECT_TRUE(stage.loadLayer(1, path("state"), 7).ok());

  const auto size = std::filesystem::file_size(path("state"));
  for (const auto damaged : {size - 1, size + 1}) {
    std::filesystem::resize_file(path("state"), damaged);
    says(stage.loadLayer(1, path("state"), 7), "is not the state of layer 1 after 7 steps");
  }
  says(stage.loadLayer(1, path("nothing"), 7), path("nothing") + ": cannot be read");
  for (const std::string &bad : {path("no/such/folder"), std::string("/dev/full")}) {
    Status status = stage.saveLayer(1, bad, 7);
    EXPECT_EQ(status.code, Code::Run);
    says(status, bad + ": cannot be written");
  }
}

TEST_P(StageConformance, WrongInputEndsTheRun) {
  if (!GetParam().checksInput)
    GTEST_SKIP() << GetParam().name << " takes any input";
  Run run(GetParam(), made);
  Label label{run.operation(Kind::Forward), 2, 0, 0};
  run.under->fillInput(run.in, label);
  Data wrong = bytesOf(run.under->device(), run.in);
  wrong.back() ^= std::byte(1);
  run.under->device().write(run.in, wrong.data());
  run.issue(label, {run.in, run.out});
  run.issued.synchronize(run.under->device(), 0, 1);
  std::string message = run.under->failure().status().message;
  EXPECT_NE(message.find("rank 1: F stage 1 microbatch 2"), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(All, StageConformance, testing::ValuesIn(stageImplementations()),
                         [](const auto &info) { return info.param.name; });

} // namespace
