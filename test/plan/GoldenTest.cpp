// One plan of every released format version is kept for ever, and today's build reads it (test/golden/README.md).
#include "test/plan/MakeBurst.h"
#include "test/plan/MakeJobs.h"
#include "test/plan/MakeReplicas.h"
#include "test/plan/MakeShards.h"
#include "test/plan/Refused.h"

#include <cstdlib>

namespace pipec::plan {
namespace {

using namespace test;

/// The golden plan of that name is read as `expected`.
void holds(const std::string &name, const Plan &expected) {
  const std::string path = PIPEC_SOURCE_DIR "/test/golden/" + name;
  if (std::getenv("PIPEC_WRITE_GOLDEN")) {
    ASSERT_TRUE(writeFile(path, encode(expected)).ok());
  }
  Plan plan;
  const Status status = load(path, plan);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(plan, expected);
}

/// What test/golden/format-1.0.plan holds.
Plan golden10() {
  Make make;
  make.memoryLimit = Bytes(40) << 30;
  Plan plan = makePlan(make);
  make.deferred = true;
  make.slots = 3;
  plan.variants.push_back(makePlan(make).variants[0]);
  plan.variants[1].name = "deferred";
  // Times as the walk finds them (P37); the bounds are only under them.
  plan.variants[0].certificate = {
      340'320'000'000, 340'320'000'000, LeastTime::proven(280'000'000'000), LeastTime::proven(270'000'000'000),
      Bound::WarmUp,   Bound::Work};
  plan.variants[1].certificate = {
      296'120'000'000, 296'120'000'000, LeastTime::proven(280'000'000'000), LeastTime::proven(270'000'000'000),
      Bound::WarmUp,   Bound::Work};
  plan.provider = {1, 4, 1}; // the FlexBuffer of the number 1
  return plan;
}

TEST(Golden, Format10) { holds("format-1.0.plan", golden10()); }

/// What test/golden/format-1.1.plan holds: two copies of one stage, each with two sequences of two slices.
TEST(Golden, Format11) { holds("format-1.1.plan", makeCopies()); }

/// What test/golden/format-1.2.plan holds: forwards that run together with a backward.
Plan golden12() {
  Make make;
  make.ranks = 2;
  make.overlapped = 22'000'000'000;
  Plan plan = makePlan(make);
  // Times as the walk finds them (P37); the bounds are only under them.
  plan.variants[0].certificate = {
      363'280'000'000, 363'280'000'000, LeastTime::proven(180'000'000'000), LeastTime::proven(176'000'000'000),
      Bound::Work,     Bound::Work};
  return plan;
}

TEST(Golden, Format12) { holds("format-1.2.plan", golden12()); }

/// What test/golden/format-1.3.plan holds: two copies of one stage, whose gradients are summed in a group of the plan
/// (before, as in format-1.1.plan, an all-reduce named its peer; both are read alike); and a rank with a memory limit
/// of its own.
Plan golden13() {
  Plan plan = makeCopies();
  plan.variants[0].memoryLimit = Bytes(64) << 30;
  plan.variants[0].programs[1].memoryLimit = Bytes(40) << 30;
  return plan;
}

TEST(Golden, Format13) {
  const Plan plan = golden13();
  holds("format-1.3.plan", plan);
  ASSERT_EQ(plan.groups.size(), 1u);
  EXPECT_EQ(plan.groups[0].members, (std::vector<int32_t>{0, 1}));
}

/// What test/golden/format-1.4.plan holds: forwards that keep their input alone, and what runs them again; a B that
/// adds to what W releases.
Plan golden14() {
  Make make;
  make.ranks = 2;
  make.split = make.recompute = true;
  Plan plan = makePlan(make);
  for (Program &program : plan.variants[0].programs) {
    operationOf(program, Kind::BackwardInput).context = 5;
    operationOf(program, Kind::BackwardWeight).context += 5;
  }
  return plan;
}

TEST(Golden, Format14) { holds("format-1.4.plan", golden14()); }

/// What test/golden/format-1.5.plan holds: transfers that start in the order of issue.
Plan golden15() {
  Make make;
  make.ranks = 2;
  Plan plan = makePlan(make);
  plan.variants[0].launchOrder = true;
  return plan;
}

TEST(Golden, Format15) { holds("format-1.5.plan", golden15()); }

/// What test/golden/format-1.6.plan holds: two replicas of each of two ranks, passes in parts, layers that are sharded
/// and some that are summed in pieces, updates on a queue of their own.
TEST(Golden, Format16) {
  Replicated how;
  how.norm = true;
  holds("format-1.6.plan", makeReplicas(how));
}

/// What test/golden/format-1.7.plan holds: two ranks of three shards, the second twice as slow, with their own times
/// and sizes, and two splits, one of which the slow shard gives units away from and leaves some out.
Plan golden17() {
  Sharded how;
  how.make.ranks = 2;
  how.make.norm = true;
  how.shards = 3;
  how.exchange = true;
  how.factors = {Own::kWhole, 2 * Own::kWhole};
  Plan plan = makeShards(how);
  Variant &variant = plan.variants[0];
  variant.balance = R"({"name": "semi", "part": 0.5})";
  variant.own[1].staticBytes -= Bytes(1) << 30;
  variant.own[1].workspace -= 1;
  for (Portion &each : equalPortions(1, 1, "columns", 4096, 3))
    variant.portions.push_back(each);
  variant.portions[0].worked = {{0, 3}, {3, 1}};
  variant.portions[0].kept = 4;
  variant.portions[1].worked = {{4, 2}};
  variant.portions[1].kept = 1;
  return plan;
}

TEST(Golden, Format17) { holds("format-1.7.plan", golden17()); }

/// What test/golden/format-1.8.plan holds: two jobs, of which the second of two ranks runs one in two windows.
TEST(Golden, Format18) { holds("format-1.8.plan", makeJobs()); }

/// What test/golden/format-1.9.plan holds: stages on four ranks, two and one; the second variant sums early.
Plan golden19(bool boundaries = false) {
  Burst how;
  how.boundaries = boundaries;
  how.norm = true;
  Plan plan = makeBurst(how);
  how.early = how.updates = true;
  plan.variants.push_back(makeBurst(how).variants[0]);
  // Times as the walk finds them (P37); the bounds are only under them.
  for (Variant &variant : plan.variants)
    variant.certificate = {
        62'800'000'000, 62'800'000'000, LeastTime::proven(40'000'000'000), LeastTime::proven(30'000'000'000),
        Bound::Work,    Bound::Work};
  return plan;
}

TEST(Golden, Format19) { holds("format-1.9.plan", golden19()); }

/// What test/golden/format-1.10.plan holds: the same, with what a sample is between stages.
TEST(Golden, Format110) { holds("format-1.10.plan", golden19(true)); }

/// What test/golden/format-1.11.plan holds: a weight that the first and the last of three ranks have in common.
TEST(Golden, Format111) {
  holds("format-1.11.plan", makePlan({.ranks = 3, .split = true, .norm = true, .shared = Bytes(1) << 20}));
}

} // namespace
} // namespace pipec::plan
