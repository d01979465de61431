// Evaluations of plans of every sort keep the rules, end, and hold nothing of what passes yield.
#include "runtime/plan/Evaluation.h"

#include "runtime/plan/Load.h"
#include "runtime/simulate/Simulate.h"
#include "test/plan/MakeBurst.h"
#include "test/plan/MakePlan.h"
#include "test/plan/MakeReplicas.h"
#include "test/plan/MakeShards.h"

#include <gtest/gtest.h>

#include <map>

namespace pipec::plan {
namespace {

using namespace test;

struct Sort {
  const char *name;
  Plan plan;
};

Make wide(uint32_t slots, int32_t stagesPerRank = 1) {
  Make make;
  make.slots = slots;
  make.stagesPerRank = stagesPerRank;
  return make;
}

std::vector<Sort> sorts() {
  Make deferred;
  deferred.split = deferred.deferred = deferred.norm = true;
  Make again;
  again.recompute = true;
  Make pairs;
  pairs.overlapped = 25'000'000'000;
  Make forwards;
  forwards.backward = forwards.optimizer = false;
  Make one;
  one.ranks = 1;
  return {{"1F1B", makePlan({})},
          {"one slot", makePlan(wide(1))},
          {"many slots", makePlan(wide(8))},
          {"two stages", makePlan(wide(1, 2))},
          {"deferred", makePlan(deferred)},
          {"recomputed", makePlan(again)},
          {"pairs", makePlan(pairs)},
          {"forwards alone", makePlan(forwards)},
          {"one rank", makePlan(one)},
          {"copies", makeCopies()},
          {"replicas", makeReplicas()},
          {"shards", makeShards({})}};
}

TEST(Evaluation, KeepsTheRulesAndEnds) {
  for (Sort &sort : sorts()) {
    SCOPED_TRACE(sort.name);
    const Variant training = sort.plan.variants.front();
    simulate::Result whole, result;
    ASSERT_TRUE(simulate::simulate(training, {}, whole).ok());
    ASSERT_TRUE(mayEvaluate(sort.plan).ok());
    Variant made;
    ASSERT_TRUE(evaluationOf(training, made).ok());
    Status status = simulate::span(made, made.certificate.span, result);
    ASSERT_TRUE(status.ok()) << status.message;
    made.certificate.makespan = result.makespan;
    EXPECT_LE(result.makespan, whole.makespan);
    for (size_t place = 0; place != result.places.size(); ++place) {
      EXPECT_EQ(result.places[place].peakActivation, 0);
      EXPECT_LE(result.places[place].peak, whole.places[place].peak);
    }
    sort.plan.variants = {made};
    sort.plan.groups = groupsOf(sort.plan.variants, sort.plan.degree());
    status = verify(sort.plan);
    EXPECT_TRUE(status.ok()) << status.message;
  }
}

TEST(Evaluation, HasEachForwardOnceAndTheSameBuffers) {
  for (const Sort &sort : sorts()) {
    SCOPED_TRACE(sort.name);
    const Variant &training = sort.plan.variants.front();
    Variant made;
    ASSERT_TRUE(evaluationOf(training, made).ok());
    for (size_t rank = 0; rank != made.programs.size(); ++rank) {
      std::map<std::tuple<Kind, Payload, int32_t, int32_t, int64_t>, int> left;
      const auto add = [&](const Program &program, int each) {
        for (Cursor cursor(program); !cursor.done(); cursor.next()) {
          const Operation &op = *cursor.at().operation;
          if (op.kind == Kind::Forward || (isTransfer(op.kind) && op.of == Payload::Forward) || each < 0)
            left[{op.kind, op.of, op.stage, op.firstLayer, cursor.at().microbatch()}] += each;
        }
      };
      add(training.programs[rank], 1);
      add(made.programs[rank], -1);
      for (const auto &[what, count] : left)
        EXPECT_EQ(count, 0);
      EXPECT_EQ(made.programs[rank].queues, training.programs[rank].queues);
      for (const Ring &ring : made.programs[rank].rings) {
        const auto like = std::ranges::find_if(training.programs[rank].rings, [&](const Ring &each) {
          return each.peer == ring.peer && each.direction == ring.direction;
        });
        ASSERT_NE(like, training.programs[rank].rings.end());
        EXPECT_LE(ring.size, like->size);
        EXPECT_EQ(ring.slotBytes, like->slotBytes);
      }
    }
  }
}

TEST(Evaluation, KeepsRanksBusy) {
  // Four ranks of one stage each: the pipeline's least, but for what transfers take.
  Make make;
  make.ranks = 4;
  make.microbatches = 32;
  make.transfer = make.latency = 0;
  Variant made;
  ASSERT_TRUE(evaluationOf(makePlan(make).variants.front(), made).ok());
  simulate::Result result;
  ASSERT_TRUE(simulate::simulate(made, {}, result).ok());
  EXPECT_EQ(result.makespan, (32 + 3) * make.forward);
}

TEST(Evaluation, IsRefusedWhereThereIsNone) {
  const Plan plan = makeBurst();
  Variant made;
  EXPECT_EQ(mayEvaluate(plan).code, Code::Check);
  EXPECT_EQ(evaluationOf(plan.variants.front(), made).code, Code::Check);
}

} // namespace
} // namespace pipec::plan
