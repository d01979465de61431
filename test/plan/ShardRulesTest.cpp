// Rules P45, P51 to P53 and P59, and what others ask of shards, each broken in a plan that is right otherwise.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Limits.h"
#include "test/plan/MakeReplicas.h"
#include "test/plan/MakeShards.h"
#include "test/plan/Refused.h"

#include <functional>
#include <gmock/gmock.h>

namespace pipec::plan {
namespace {

using namespace test;

class ShardRules : public ::testing::Test {
protected:
  static Sharded usual() {
    Sharded how;
    how.make.ranks = 2;
    how.make.microbatches = 4;
    how.exchange = true;
    return how;
  }
  Plan plan = makeShards(usual());
  Program &rank(size_t r) { return plan.variants[0].programs[r]; }
  Variant &variant() { return plan.variants[0]; }
  /// Of the first operation of a kind of rank 0: its own row of one of the shards.
  OwnCost &ownOf(size_t shard, Kind kind) { return variant().own[shard].operations[indexOf(kind)]; }
  size_t indexOf(Kind kind) { return firstOf(rank(0), kind).operation; }
  Operation &of(Kind kind) { return operationOf(rank(0), kind); }

  void eachRefused(const char *label, Code code, const std::vector<std::function<void()>> &changes) {
    expectEachRefused(plan, label, code, changes);
  }
  void damaged(const char *label, const std::vector<std::function<void()>> &changes) {
    eachRefused(label, Code::Input, changes);
  }
  void wrong(const char *label, const std::vector<std::function<void()>> &changes) {
    eachRefused(label, Code::Check, changes);
  }
  void says(const std::string &what) { EXPECT_THAT(verify(plan).message, testing::HasSubstr(what)); }
};

TEST_F(ShardRules, RightPlansPass) {
  Sharded how = usual();
  for (const bool exchange : {false, true})
    for (const bool split : {false, true})
      for (const bool recompute : {false, true})
        for (const int32_t shards : {2, 3, 8}) {
          how.exchange = exchange;
          how.make.split = split;
          how.make.recompute = recompute;
          how.make.norm = exchange;
          how.shards = shards;
          how.make.memoryLimit = Bytes(64) << 30;
          const Plan made = makeShards(how);
          EXPECT_EQ(verify(made).message, "");
          Plan read;
          EXPECT_EQ(decode(encode(made), read).message, "");
          EXPECT_EQ(read, made);
          EXPECT_EQ(groupsOf(made.variants), made.groups);
        }
}

TEST_F(ShardRules, P11AGroupNeedsShards) {
  plan = makePlan({});
  of(Kind::Forward).group = 0;
  plan.groups = {{{0, 1}}};
  expectRefused(plan, "P11", Code::Input);
}

TEST_F(ShardRules, P14OwnTimes) {
  damaged("P14", {
                     [&] { ownOf(1, Kind::Forward).before = limits::kTime / 4 + 1; },
                     [&] { ownOf(1, Kind::Backward).after = limits::kTime; },
                     [&] { // a queue that nothing runs on costs every shard some memory
                       rank(1).queues.resize(size_t(limits::kShardQueues) / 2,
                                             {QueueKind::Communicator, Priority::Compute});
                     },
                 });
  ownOf(1, Kind::Forward).before = limits::kTime;
  says("P14: the work of rank 0 shard 1 takes");
}

TEST_F(ShardRules, P33EachShardReleasesWhatItHolds) {
  wrong("P33", {
                   [&] { ownOf(0, Kind::Forward).activation += 1; },
                   [&] { ownOf(1, Kind::Backward).context += 1; },
                   [&] { ownOf(1, Kind::Backward).activation = 0; },
               });
  ownOf(0, Kind::Forward).activation -= 7;
  ownOf(0, Kind::Backward).activation -= 7; // another size than the other shard's
  EXPECT_TRUE(verify(plan).ok());
  ownOf(1, Kind::Forward).activation -= 7;
  says("P33: rank 0 shard 1: ");
}

TEST_F(ShardRules, P35OfEachShard) {
  Sharded how = usual();
  how.make.memoryLimit = Bytes(10) << 30;
  plan = makeShards(how);
  ASSERT_TRUE(verify(plan).ok()) << verify(plan).message;
  wrong("P35", {
                   [&] { variant().own[1].staticBytes += Bytes(2) << 30; },
                   [&] { variant().own[3].workspace += Bytes(4) << 30; },
                   [&] { ownOf(1, Kind::Forward).context = ownOf(1, Kind::Backward).context = Bytes(3) << 30; },
                   [&] { rank(1).memoryLimit = Bytes(6) << 30; },
               });
  // What the program says is nothing that any process holds.
  rank(0).staticBytes = Bytes(1) << 50;
  EXPECT_TRUE(verify(plan).ok());
  variant().own[1].staticBytes += Bytes(2) << 30;
  says("P35: rank 0 shard 1 needs 10.563 GiB, 577 MiB over the limit of 10 GiB: 2.5 GiB live at rank 0: F stage 0 "
       "microbatch 1, 64 MiB");
}

TEST_F(ShardRules, P44GroupsAreTheShardsOfOneRank) {
  damaged("P44", {
                     [&] { std::swap(plan.groups[0], plan.groups[1]); },
                     [&] { plan.groups[0].members = {0, 1, 2}; },
                     [&] { plan.groups[0].members = {0}; },
                     [&] { plan.groups[0].members = {1, 0}; },
                     [&] { plan.groups[0].members = {0, 2}; },
                     [&] { plan.groups.pop_back(); },
                     [&] { of(Kind::Forward).group = 7; },
                     [&] {
                       of(Kind::Forward).group = 1; // of another rank
                     },
                 });
  for (Operation &o : rank(1).operations)
    if (meets(o))
      o.group = 0;
  says("P44: ranks 0, 1 have sums of group 0, expected the shards of one rank");
}

TEST_F(ShardRules, P45Processes) {
  damaged("P45", {
                     [&] { plan.processes.pop_back(); },
                     [&] { plan.processes.push_back({2, 0, 0}); },
                     [&] { std::swap(plan.processes[0], plan.processes[1]); },
                     [&] { plan.processes[1] = {0, 1, 0}; }, // a replica
                     [&] { variant().own.pop_back(); },
                     [&] { variant().own.resize(1); }, // fewer than ranks
                     [&] { variant().own.resize(2); }, // one of each
                     [&] { variant().own.resize(size_t(limits::kProcesses) + 2); },
                     [&] { plan.processes.clear(); },
                     [&] {
                       plan.variants.push_back(makeShards(usual()).variants[0]);
                       plan.variants[1].own.insert(plan.variants[1].own.end(), 2, plan.variants[1].own[0]);
                     },
                     [&] { // two replicas of each, as the processes say
                       plan.processes.clear();
                       for (int32_t world = 0; world != 8; ++world)
                         plan.processes.push_back({world / 4, world / 2 % 2, world % 2});
                     },
                 });
  Variant alone = variant(); // which is looked at without its plan too
  alone.own.resize(1);
  EXPECT_EQ(verify(alone).message.substr(0, 5), "P45: ");
  plan.variants.clear();
  says("P7: 0 variants");
}

TEST_F(ShardRules, P51EachUnitIsOwnedAndWorkedOnce) {
  std::vector<Portion> &portions = variant().portions; // of eight units, four each
  wrong("P51", {
                   [&] { portions[0].owned = {{0, 3}}; },
                   [&] { portions[1].owned = {}; },
                   [&] { portions[0].owned = {{0, 5}}; },
                   [&] { portions[0].owned = {{0, 8}}; },
                   [&] { portions[2].worked = {{1, 3}}, portions[2].kept = 3; },
                   [&] { portions[2].worked = {{0, 2}, {3, 1}}, portions[2].kept = 3; },
                   [&] { portions[3].worked = {{3, 5}}; },
                   [&] { portions[3].kept = 5; },
                   [&] { portions[3].kept = -1; },
               });
  portions[0].owned = {{0, 5}};
  says("P51: unit 4 of split 'heads' of stage 0 layers 0 to 0 is owned by shard 0 and shard 1");
  portions[0].owned = {{0, 3}};
  says("P51: unit 3 of split 'heads' of stage 0 layers 0 to 0 is owned by no shard");
  portions[0].owned = {{0, 1}, {2, 1}, {6, 2}};
  portions[1].owned = {{1, 1}, {3, 3}};
  portions[0].worked = {};
  portions[1].worked = {{0, 8}};
  portions[0].kept = 0;
  portions[1].kept = 5;
  EXPECT_EQ(verify(plan).message, "");
  portions[1].kept = 9;
  says("P51: shard 1 keeps 9 units of split 'heads' of stage 0 layers 0 to 0, expected 0 to 8, which it works on");
}

TEST_F(ShardRules, P51VariantsSplitAlike) {
  plan.variants.push_back(variant());
  EXPECT_TRUE(verify(plan).ok());
  std::vector<Portion> &portions = plan.variants[1].portions;
  wrong("P51",
        {
            [&] { portions.resize(2); },
            [&] { portions[0].units = portions[1].units = 9, portions[1].owned = portions[1].worked = {{4, 5}}; },
            [&] { portions[0].layers = portions[1].layers = 2; },
            [&] { portions[0].split = portions[1].split = "columns"; },
        });
  // Other runs of the same layers.
  const auto of = [&](Variant &which, std::vector<int32_t> runs) {
    which.portions.clear();
    int32_t first = 0;
    for (const int32_t layers : runs) {
      for (Portion &each : equalPortions(0, layers, "heads", 8, 2)) {
        each.firstLayer = first;
        which.portions.push_back(each);
      }
      first += layers;
    }
  };
  of(plan.variants[0], {3});
  of(plan.variants[1], {1, 2});
  EXPECT_EQ(verify(plan).message, "");
  of(plan.variants[1], {2, 2});
  expectRefused(plan, "P51", Code::Check);
}

TEST_F(ShardRules, P52Rows) {
  damaged("P52", {
                     [&] { variant().own[0].factor = 0; },
                     [&] { variant().own[3].factor = -1; },
                     [&] { variant().own[3].factor = limits::kTime + 1; },
                     [&] { variant().own[1].operations.pop_back(); },
                     [&] { variant().own[1].operations.emplace_back(); },
                     [&] { variant().own[1].operations.clear(); },
                     [&] { variant().own[1].staticBytes = -1; },
                     [&] { variant().own[1].workspace = limits::kBytes + 1; },
                     [&] { ownOf(0, Kind::Forward).before = -1; },
                     [&] { ownOf(0, Kind::Forward).between = -1; },
                     [&] { ownOf(0, Kind::Forward).after = limits::kTime + 1; },
                     [&] { ownOf(0, Kind::Forward).activation = -1; },
                     [&] { ownOf(0, Kind::Forward).context = limits::kBytes + 1; },
                     [&] { ownOf(1, Kind::Send).before = 1; },
                     [&] { ownOf(1, Kind::Recv).activation = 1; },
                     [&] { ownOf(1, Kind::Optimizer).activation = 1; },
                     [&] { ownOf(1, Kind::Forward).between = of(Kind::Forward).cost + 1; },
                     [&] { of(Kind::Forward).group = -1; },
                 });
  Sharded how = usual();
  how.make.split = true;
  how.exchange = false;
  plan = makeShards(how);
  damaged("P52", {
                     [&] { of(Kind::BackwardWeight).cost = 1; },
                     [&] { of(Kind::Optimizer).cost = 1; },
                     [&] { ownOf(0, Kind::BackwardWeight).after = 1; },
                     [&] { ownOf(0, Kind::BackwardWeight).between = 1; },
                     [&] { ownOf(0, Kind::BackwardWeight).activation = 1; },
                     [&] { ownOf(0, Kind::BackwardInput).before = limits::kTime + 1; },
                 });
  ownOf(1, Kind::BackwardWeight).after = 1;
  says("P52: rank 0 shard 1 has of operation ");
}

TEST_F(ShardRules, P52Portions) {
  std::vector<Portion> &portions = variant().portions;
  const auto both = [&](auto change) {
    return [&, change] {
      change(portions[0]);
      change(portions[1]);
    };
  };
  damaged("P52", {
                     [&] { portions.pop_back(); },
                     [&] { std::swap(portions[0], portions[1]); },
                     [&] { std::rotate(portions.begin(), portions.begin() + 2, portions.end()); },
                     [&] { portions[1].shard = 0; },
                     [&] { portions[1].units = 9; },
                     [&] { portions[1].split = "columns"; },
                     [&] { portions[1].layers = 2; },
                     both([](Portion &own) { own.stage = -1; }),
                     both([](Portion &own) { own.stage = 2; }),
                     both([](Portion &own) { own.firstLayer = -1; }),
                     both([](Portion &own) { own.layers = 0; }),
                     both([](Portion &own) { own.firstLayer = INT32_MAX, own.layers = INT32_MAX; }),
                     both([](Portion &own) { own.split.clear(); }),
                     both([](Portion &own) { own.units = 0; }),
                     both([](Portion &own) { own.units = limits::kBytes + 1; }),
                     [&] { portions[0].owned = {{-1, 5}}; },
                     [&] { portions[0].owned = {{0, 0}, {0, 4}}; },
                     [&] { portions[0].owned = {{2, 2}, {0, 2}}; },
                     [&] { portions[0].owned = {{0, 3}, {2, 2}}; },
                     [&] { portions[1].worked = {{4, INT64_MAX}}; },
                     [&] { portions[1].worked = {{INT64_MAX, INT64_MAX}}; },
                     [&] { portions.insert(portions.begin(), portions.begin(), portions.begin() + 2); }, // twice
                     [&] { variant().balance.resize(70'000, ' '); },
                 });
  variant().cut = {1, 1};
  EXPECT_TRUE(verify(plan).ok());
  portions[2].layers = portions[3].layers = 2;
  expectRefused(plan, "P52", Code::Input);
  says("P52: portion 2 is of layers 0 to 1 of a stage of 1");
}

TEST_F(ShardRules, P59NamesOfSplits) {
  damaged("P59", {
                     [&] { variant().portions[1].split.resize(300, 'a'); },
                     [&] { variant().portions[0].split = "\x1b[31m"; },
                     [&] { variant().portions[0].split = "\xff"; },
                     [&] { variant().balance = "\xff"; },
                     [&] { variant().balance = "{\n}"; },
                 });
}

TEST_F(ShardRules, P53WhatShardsHaveNot) {
  damaged("P53", {
                     [&] { rank(0).queues.push_back({QueueKind::Device, Priority::Weights}); },
                     [&] { rank(0).queues.push_back({QueueKind::Device, Priority::Updates}); },
                     [&] { of(Kind::Send).group = 0; },
                     [&] { variant().copies = 2, variant().stages = 4; },
                     [&] {
                       Operation sum = of(Kind::Optimizer);
                       sum.kind = Kind::AllReduce;
                       sum.of = Payload::Gradients;
                       rank(0).operations.push_back(sum);
                     },
                     [&] {
                       Operation pair = of(Kind::Optimizer);
                       pair.kind = Kind::Overlapped;
                       pair.group = -1;
                       rank(0).operations.push_back(pair);
                     },
                 });
  // Of the plan P45 says so first.
  const Variant right = variant();
  for (const std::function<void()> &change : std::vector<std::function<void()>>{
           [&] { variant().layers = makeReplicas().variants[0].layers; },
           [&] { variant().sharedPort = true; },
       }) {
    change();
    EXPECT_EQ(verify(variant()).message.substr(0, 5), "P53: ");
    expectRefused(plan, "P45", Code::Input);
    variant() = right;
  }
  plan = makePlan({});
  damaged("P53", {
                     [&] { variant().portions = equalPortions(0, 1, "heads", 8, 1); },
                     [&] { variant().balance = "{}"; },
                 });
}

} // namespace
} // namespace pipec::plan
