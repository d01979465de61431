// Transfers and collectives that take turns on the ports of ranks (data_parallel.port: shared).
#include "runtime/simulate/Simulate.h"
#include "test/plan/MakeReplicas.h"

#include <gtest/gtest.h>

#include <vector>

using namespace pipec;
using namespace pipec::plan::test;

namespace {

struct Held {
  bool isTransfer = false;
  int32_t rank = 0, peer = -1;
  plan::Time start = 0, end = 0;
};

/// What holds ports in some steps, of a transfer its send.
std::vector<Held> runsOf(const plan::Variant &variant) {
  std::vector<Held> runs;
  simulate::Options options;
  options.steps = 4;
  options.observe = [&](const simulate::Event &event) {
    const plan::Operation &o = *event.operation;
    if (o.kind == plan::Kind::Send)
      runs.push_back({true, event.rank, o.peer, event.start, event.start + o.cost});
    else if (plan::isCollective(o.kind) && o.layers != 0)
      runs.push_back({false, event.rank, -1, event.start, event.end});
  };
  simulate::Result result;
  const Status status = simulate::simulate(variant, options, result);
  EXPECT_TRUE(status.ok()) << status.message;
  return runs;
}

bool collide(const Held &one, const Held &other) {
  const auto outward = [](const Held &run) { return run.rank; };
  const auto inward = [](const Held &run) { return run.isTransfer ? run.peer : run.rank; };
  const bool share = outward(one) == outward(other) || inward(one) == inward(other);
  return share && one.start < other.end && other.start < one.end;
}

plan::Variant variantOf(plan::Time transfer, bool shared) {
  plan::Plan plan = makeReplicas();
  plan::Variant variant = plan.variants[0];
  variant.sharedPort = shared;
  for (plan::Program &program : variant.programs)
    for (plan::Operation &o : program.operations)
      if (plan::isTransfer(o.kind))
        o.cost = transfer;
  return variant;
}

TEST(Ports, NothingOverlapsThatSharesOne) {
  for (const plan::Time transfer : {plan::Time(1'000'000'000), plan::Time(7'000'000'000), plan::Time(30'000'000'000)}) {
    const std::vector<Held> own = runsOf(variantOf(transfer, false)), shared = runsOf(variantOf(transfer, true));
    ASSERT_EQ(own.size(), shared.size());
    size_t collisions = 0, before = 0;
    for (size_t i = 0; i != shared.size(); ++i)
      for (size_t j = 0; j != i; ++j) {
        collisions += collide(shared[i], shared[j]);
        before += collide(own[i], own[j]);
      }
    EXPECT_EQ(collisions, 0u);
    EXPECT_GT(before, 0u) << "the case shows nothing";
  }
}

} // namespace
