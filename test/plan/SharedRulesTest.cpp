// Rule P60 and what others ask of weights that several layers hold, each broken in a plan that is right otherwise.
#include "runtime/simulate/Simulate.h"
#include "test/plan/MakeReplicas.h"
#include "test/plan/Refused.h"

#include <functional>

namespace pipec::plan {
namespace {

using namespace test;

class SharedRules : public ::testing::Test {
protected:
  Plan plan = makePlan({.ranks = 3, .microbatches = 4, .norm = true, .shared = 1 << 20});
  Program &rank(size_t r) { return plan.variants[0].programs[r]; }
  Variant &variant() { return plan.variants[0]; }
  SharedWeight &weight() { return variant().shared[0]; }
  Operation &sum(size_t r) { return operationOf(rank(r), Kind::AllReduce, Payload::Shared); }
  /// An instruction of a rank no longer waits for that of the sum.
  void forget(size_t r, Kind kind, Payload of) {
    waitOf(rank(r), firstOf(rank(r), kind, of), firstOf(rank(r), Kind::AllReduce, Payload::Shared).queue).base = 0;
  }

  void eachRefused(const char *label, Code code, const std::vector<std::function<void()>> &changes) {
    expectEachRefused(plan, label, code, changes);
  }
};

TEST_F(SharedRules, RightPlans) {
  for (const bool split : {false, true})
    for (const bool deferred : {false, true})
      for (const bool norm : {false, true}) {
        const Make make{
            .ranks = 3, .stagesPerRank = 2, .split = split, .deferred = deferred, .norm = norm, .shared = 4096};
        const Plan right = makePlan(make);
        const Status status = verify(right);
        EXPECT_TRUE(status.ok()) << status.message;
        simulate::Result result;
        EXPECT_TRUE(simulate::simulate(right.variants[0], {}, result).ok());
      }
}

TEST_F(SharedRules, TheSumIsInTheMakespan) {
  simulate::Result with, without;
  Make make{.ranks = 2, .microbatches = 4, .shared = 1 << 20};
  ASSERT_TRUE(simulate::simulate(makePlan(make).variants[0], {}, with).ok());
  make.shared = 0;
  ASSERT_TRUE(simulate::simulate(makePlan(make).variants[0], {}, without).ok());
  EXPECT_EQ(with.makespan, without.makespan + make.sharedCost); // rank 0 ends last, and has nothing else to do
}

TEST_F(SharedRules, P7Sizes) {
  eachRefused("P7", Code::Input,
              {
                  [&] { weight().layers = {0}; },
                  [&] { weight().layers = {2, 0}; },
                  [&] { weight().layers = {-1, 2}; },
                  [&] { weight().stages = {}; },
                  [&] { weight().stages = {0, 0}; },
                  [&] { weight().stages = {0, 3}; },
                  [&] { weight().gradients = 0; },
                  [&] { weight().gradients = INT64_MAX; },
                  [&] { variant().cut = {1, 1, 1}, weight().layers = {0, 3}; },
                  [&] { variant().cut = {1, 1, 1}, weight().layers = {0, 1}; },
                  [&] { variant().shared.push_back({{0, 2}, {0, 2}, INT64_MAX}); },
              });
}

TEST_F(SharedRules, P7SameInAllVariants) {
  plan.variants.push_back(plan.variants.front());
  EXPECT_TRUE(verify(plan).ok());
  eachRefused("P7", Code::Input, {[&] { plan.variants[1].shared[0].gradients /= 2; }});
}

TEST_F(SharedRules, P11Operations) {
  eachRefused("P11", Code::Input,
              {
                  [&] { sum(0).firstLayer = 1; },
                  [&] { sum(0).firstLayer = -1; },
                  [&] { sum(0).layers = 2; },
                  [&] { sum(0).begin = 1; },
                  [&] { --sum(0).end; },
                  [&] { --sum(0).bytes; },
                  [&] { sum(0).group = -1; },
                  [&] { sum(0).kind = Kind::AllGather; },
                  [&] { sum(0).of = Payload::Gradients; },
                  [&] { weight().stages = {1, 2}; },
                  [&] { variant().shared.clear(); },
              });
}

TEST_F(SharedRules, P60SumsOnce) {
  eachRefused("P60", Code::Check,
              {
                  [&] { weight().stages = {0, 1, 2}; },
                  [&] { sum(2).cost /= 2; },
                  [&] { variant().shared.push_back({{0, 2}, {0, 2}, 4096}); },
              });
}

TEST_F(SharedRules, P60Waits) {
  eachRefused("P60", Code::Check,
              {
                  [&] { waitOf(rank(0), firstOf(rank(0), Kind::AllReduce, Payload::Shared), 0).base -= 1; },
                  [&] { forget(0, Kind::Optimizer, Payload::None); },
                  [&] { forget(2, Kind::AllReduce, Payload::Norm); },
              });
}

/// As of a layer whose gradients are the weight's alone, which no exchange of replicas brings an update to.
TEST_F(SharedRules, P60Updates) {
  const Status right = verify(makeReplicas({.shared = 4096}));
  EXPECT_TRUE(right.ok()) << right.message;
  expectRefused(makeReplicas({.shared = 4096, .updated = false}), "P60", Code::Check);
}

} // namespace
} // namespace pipec::plan
