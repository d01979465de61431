// Which plans may run in place of another.
#include "runtime/launch/Prepare.h"
#include "runtime/plan/Write.h"
#include "test/plan/MakeJobs.h"

#include <gtest/gtest.h>

using namespace pipec;
using namespace pipec::runtime;

namespace {

/// With the certificate that it needs.
plan::Plan made(const plan::test::Make &make) {
  plan::Plan plan = plan::test::makePlan(make);
  simulate::Result result;
  EXPECT_TRUE(simulate::simulate(plan.variants.front(), {}, result).ok());
  plan.variants.front().certificate.makespan = result.makespan;
  return plan;
}

Status tryOne(const plan::Plan &next, const plan::Plan &running) {
  plan::Plan read;
  std::vector<simulate::Result> proofs;
  return readSuccessor(plan::encode(next), running, read, proofs);
}

TEST(Successor, HasTheSameStagesOnTheSameRanks) {
  plan::test::Make make;
  make.ranks = 2;
  const plan::Plan running = made(make);
  make.slots = 4;
  EXPECT_EQ(tryOne(made(make), running).message, "");
  make.ranks = 3;
  EXPECT_EQ(tryOne(made(make), running).message, "the plan is of 3 ranks, the one that runs of 2");
  make.ranks = 2;
  make.stagesPerRank = 2;
  EXPECT_EQ(tryOne(made(make), running).message,
            "the plan holds stages 0, 1 on rank 0, the one that runs 0: weights do not move");
}

TEST(Successor, HasTheSameJobsOrNone) {
  const plan::Plan running = plan::test::makeJobs();
  EXPECT_EQ(tryOne(running, running).message, "");
  plan::Plan next = running;
  plan::Variant &variant = next.variants.front();
  variant.jobs[0].samples = 9;
  const std::string other = "the plan has other background jobs than the one that runs, or on other ranks: compile it "
                            "with the same, or with none";
  EXPECT_EQ(tryOne(next, running).message, other);
  next = running;
  variant.programs[0].job = 0;
  variant.programs[0].piece = 1;
  EXPECT_EQ(tryOne(next, running).message, other);
  next = running;
  variant.jobs.clear();
  variant.programs[1].job = -1;
  variant.programs[1].piece = 0;
  variant.programs[1].windows.clear();
  variant.certificate.delay = 0;
  EXPECT_EQ(tryOne(next, running).message, "");
  EXPECT_EQ(tryOne(running, next).message, other);
}

TEST(Successor, HasOneCutOfAsManyLayers) {
  plan::test::Make make;
  make.ranks = 2;
  const plan::Plan unknown = made(make);
  plan::Plan one = unknown, other = unknown;
  one.variants.front().cut = {4, 4};
  other.variants.front().cut = {3, 5};
  EXPECT_EQ(tryOne(one, one).message, "");
  EXPECT_EQ(tryOne(other, one).message, "");
  EXPECT_EQ(tryOne(unknown, one).message, "");
  EXPECT_EQ(tryOne(one, unknown).message, "");
  plan::Plan two = one;
  two.variants.push_back(other.variants.front());
  EXPECT_EQ(tryOne(two, one).message, "the plan's variants cut the layers in several ways: weights do not move");
  other.variants.front().cut = {4, 5};
  const Status status = tryOne(other, one);
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_EQ(status.message, "the plan is of 9 layers, the one that runs of 8");
}

TEST(Successor, RunsOnStagesOfItsOwnCut) {
  plan::Plan plan = made({});
  plan::Variant &variant = plan.variants.front();
  EXPECT_EQ(compareCut(variant, {4, 4}).message, "");
  variant.cut = {3, 5};
  EXPECT_EQ(compareCut(variant, {3, 5}).message, "");
  EXPECT_EQ(compareCut(variant, {}).message, "");
  const Status status = compareCut(variant, {4, 4});
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_EQ(status.message, "the plan cuts the layers 3-5, the one that runs 4-4: weights do not move");
}

} // namespace
