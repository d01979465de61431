// Rules P57 and P58, and what others ask of stages on several ranks, each broken in a plan that is right otherwise.
#include "runtime/plan/Limits.h"
#include "runtime/simulate/Simulate.h"
#include "test/plan/MakeBurst.h"
#include "test/plan/Refused.h"

#include <functional>

namespace pipec::plan {
namespace {

using namespace test;

constexpr uint32_t kCollectives = 1, kUpdates = 2;

/// The step with some of its instructions, in another order. Each takes its waits along, which go on to name the same
/// instruction, or the one before it on its queue that is still there.
void setOrder(Program &p, const std::vector<size_t> &wanted) {
  std::vector<int64_t> issued(p.queues.size()), places(p.instructions.size());
  for (const size_t i : wanted)
    places[i] = ++issued[p.instructions[i].queue];
  std::vector<std::vector<int64_t>> moved(p.queues.size(), {0}); // by queue and place
  for (size_t i = 0; i != p.instructions.size(); ++i)
    if (std::vector<int64_t> &own = moved[p.instructions[i].queue]; places[i] != 0)
      own.push_back(places[i]);
    else
      own.push_back(int64_t(own.back()));
  std::vector<Instruction> instructions;
  std::vector<std::vector<Wait>> waits;
  for (const size_t i : wanted) {
    const Instruction &own = p.instructions[i];
    instructions.push_back(own);
    waits.emplace_back(p.waits.begin() + own.firstWait, p.waits.begin() + own.firstWait + own.waits);
    for (Wait &wait : waits.back())
      wait.base = moved[wait.queue][size_t(wait.base)];
  }
  setStep(p, instructions, waits, false);
}

class GroupRules : public ::testing::Test {
protected:
  Plan plan = makeBurst();
  Variant &variant() { return plan.variants[0]; }
  Program &rank(size_t r) { return variant().programs[r]; }

  static size_t placeOf(const Program &p, Kind kind, Payload of, int32_t stage) {
    for (size_t i = 0; i != p.instructions.size(); ++i)
      if (const Operation &o = p.operations[p.instructions[i].operation];
          o.kind == kind && o.of == of && o.stage == stage)
        return i;
    throw std::logic_error("no such instruction");
  }
  size_t passAt(size_t r, Kind kind, int32_t stage) { return placeOf(rank(r), kind, Payload::None, stage); }
  size_t reshardAt(size_t r, Payload of, int32_t from) { return placeOf(rank(r), Kind::Reshard, of, from); }
  size_t sumAt(size_t r, int32_t stage) { return placeOf(rank(r), Kind::AllReduce, Payload::Gradients, stage); }
  Instruction &at(size_t r, size_t i) { return rank(r).instructions[i]; }
  Operation &of(size_t r, size_t i) { return rank(r).operations[at(r, i).operation]; }
  Operation &pass(size_t r, Kind kind, int32_t stage) { return of(r, passAt(r, kind, stage)); }
  Operation &reshard(size_t r, Payload payload, int32_t from) { return of(r, reshardAt(r, payload, from)); }
  Operation &sum(size_t r, int32_t stage) { return of(r, sumAt(r, stage)); }

  /// An instruction no longer waits for a queue.
  void forget(size_t r, size_t i, uint32_t queue) { waitOf(rank(r), at(r, i), queue).base = 0; }
  void drop(size_t r, size_t gone) {
    std::vector<size_t> order;
    for (size_t i = 0; i != rank(r).instructions.size(); ++i)
      if (i != gone)
        order.push_back(i);
    setOrder(rank(r), order);
  }
  /// An instruction moves to right behind another one.
  void move(size_t r, size_t one, size_t behind) {
    std::vector<size_t> order;
    for (size_t i = 0; i != rank(r).instructions.size(); ++i) {
      if (i != one)
        order.push_back(i);
      if (i == behind)
        order.push_back(one);
    }
    setOrder(rank(r), order);
  }
  void append(size_t r, const Operation &o) {
    rank(r).instructions.push_back({uint32_t(rank(r).operations.size()), kCollectives, 0, 0, 0, 0});
    rank(r).operations.push_back(o);
    ++rank(r).step[0].count;
  }
  void exchangeAt(size_t r, size_t one, size_t other) { std::swap(at(r, one).operation, at(r, other).operation); }

  /// Cuts a pass of two layers between them.
  void cut(size_t r, Kind kind, int32_t stage) {
    Program &p = rank(r);
    const size_t one = passAt(r, kind, stage);
    Operation &first = pass(r, kind, stage);
    first.layers = 1;
    first.cost /= 2;
    Operation second = first;
    (kind == Kind::Forward ? second : first).firstLayer = 1;
    Operation &empty = kind == Kind::Forward ? second : first;
    empty.activation = empty.context = 0;
    const int64_t place = std::count_if(p.instructions.begin(), p.instructions.begin() + ptrdiff_t(one) + 1,
                                        [](const Instruction &i) { return i.queue == 0; });
    std::vector<Instruction> instructions;
    std::vector<std::vector<Wait>> waits;
    for (const Instruction &each : p.instructions) {
      instructions.push_back(each);
      waits.emplace_back(p.waits.begin() + each.firstWait, p.waits.begin() + each.firstWait + each.waits);
      for (Wait &wait : waits.back())
        wait.base += wait.queue == 0 && wait.base >= place;
      if (instructions.size() != one + 1)
        continue;
      instructions.push_back({uint32_t(p.operations.size()), 0, 0, 0, 0, 0});
      waits.emplace_back();
    }
    p.operations.push_back(second);
    setStep(p, instructions, waits, false);
  }

  using Change = std::function<void()>;
  struct Case {
    std::string message; // behind the label
    Change change;
  };
  void refused(const std::string &label, Code code, const std::vector<Case> &cases) {
    const Plan right = plan;
    for (size_t i = 0; i != cases.size(); ++i) {
      SCOPED_TRACE(i);
      cases[i].change();
      expectRefused(plan, label, code);
      EXPECT_EQ(verify(plan).message, label + ": " + cases[i].message);
      plan = right;
    }
  }
  void damaged(const std::string &label, const std::vector<Case> &cases) { refused(label, Code::Input, cases); }
  void wrong(const std::string &label, const std::vector<Case> &cases) { refused(label, Code::Check, cases); }
};

/// Keeps all rules, in memory and in a file, and runs to its end.
void isRight(Plan plan) {
  for (Variant &variant : plan.variants) {
    simulate::Result result;
    const Status status = simulate::simulate(variant, {}, result);
    ASSERT_TRUE(status.ok()) << status.message;
    variant.certificate.makespan = variant.certificate.span = result.makespan;
  }
  EXPECT_EQ(groupsOf(plan.variants), plan.groups);
  Plan read;
  Status status = decode(encode(plan), read);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(read, plan);
  status = verify(read);
  EXPECT_TRUE(status.ok()) << status.message;
  for (const Variant &variant : read.variants) {
    simulate::Result result;
    status = simulate::prove(variant, result);
    EXPECT_TRUE(status.ok()) << status.message;
    Time span = 0;
    EXPECT_TRUE(simulate::span(variant, span, result).ok());
  }
}

TEST_F(GroupRules, RightPlansPass) {
  const std::vector<std::vector<int32_t>> all = {{4, 2, 1},    {1, 2, 4}, {2, 1, 2},    {1, 4, 1},       {4}, {3, 5, 2},
                                                 {2, 2, 4, 4}, {1, 1},    {6, 1, 3, 6}, {1, 2, 1, 2, 1}, {1}};
  for (const std::vector<int32_t> &widths : all)
    for (int bits = 0; bits != 32; ++bits) {
      Burst how;
      how.widths = widths;
      how.backward = (bits & 1) == 0;
      how.optimizer = (bits & 2) == 0;
      how.early = (bits & 4) != 0;
      how.updates = (bits & 8) != 0;
      how.norm = (bits & 16) != 0;
      SCOPED_TRACE(testing::PrintToString(widths) + " " + std::to_string(bits));
      isRight(makeBurst(how));
    }
}

TEST_F(GroupRules, SomeRanksMayHaveNoStage) {
  for (const bool backward : {false, true})
    isRight(makeBurst({.ranks = 6, .backward = backward}));
}

TEST_F(GroupRules, LayersWithoutGradientsAreNotSummed) {
  for (const bool updated : {false, true})
    for (const std::vector<int32_t> &widths : {std::vector{4, 2, 1}, std::vector{2}}) // and no reshards
      isRight(makeBurst({.widths = widths, .optimizer = updated, .gradients = 0}));
}

TEST_F(GroupRules, VariantsMayDifferInTheirOrder) {
  plan.variants.push_back(makeBurst({.early = true}).variants[0]);
  isRight(plan);
}

TEST_F(GroupRules, P7Sizes) {
  damaged("P7",
          {
              {"groups of 2 stages, expected of all 3", [&] { variant().stageGroups.pop_back(); }},
              {"groups of 4 stages, expected of all 3", [&] { variant().stageGroups.push_back(-1); }},
              {"a batch of 0 samples, expected 1 to 1000000000000000000", [&] { variant().batch = 0; }},
              {"a batch of 1000000000000000001 samples, expected 1 to 1000000000000000000",
               [&] { variant().batch = limits::kTime + 1; }},
              {"2 microbatches, 1 copies and 1 slices, expected one of each where stages are on several ranks",
               [&] { variant().microbatches = 2; }},
              {"boundaries of 2 stages, expected of all 3 or none", [&] { variant().boundaries.pop_back(); }},
              {"a stage hands on -1 bytes of a sample, expected 0 to 1152921504606846976 of all 9 samples",
               [&] { variant().boundaries[1] = -1; }},
              {"a stage hands on 576460752303423488 bytes of a sample, expected 0 to 1152921504606846976 of all 9 "
               "samples",
               [&] { variant().boundaries[0] = limits::kBytes / 2; }},
          });
  const std::string other = "variant 1 places stages on ranks in another way than variant 0; all must agree";
  plan.variants.push_back(variant());
  damaged("P7", {{other, [&] { plan.variants[1].batch = 10; }},
                 {other, [&] { plan.variants[1].stageGroups[1] = 0; }},
                 {other, [&] { plan.variants[1].boundaries[1] = 7; }},
                 {other, [&] { plan.variants[1] = makeBurst({.widths = {4, 4, 1}}).variants[0]; }}});
  plan = makePlan({});
  damaged("P7",
          {{"a batch of 9 samples and boundaries of 0 stages, expected 0 and none where each stage is on one rank",
            [&] { variant().batch = 9; }},
           {"a batch of 0 samples and boundaries of 1 stages, expected 0 and none where each stage is on one rank",
            [&] { variant().boundaries = {1}; }}});
}

TEST_F(GroupRules, P9StagesAreOnTheFirstRanks) {
  const auto erase = [&](size_t r, size_t i) {
    return [=, this] { rank(r).stages.erase(rank(r).stages.begin() + ptrdiff_t(i)); };
  };
  damaged("P9", {
                    {"stage 0 is on rank 2 and not on rank 1: expected the first ranks of all", erase(1, 0)},
                    {"stage 1 is on rank 1 and not on rank 0: expected the first ranks of all", erase(0, 1)},
                    {"stage 2 is on no rank", erase(0, 2)},
                    {"stage 1 is on rank 3 and not on rank 2: expected the first ranks of all",
                     [&] { rank(3).stages = {0, 1}; }},
                    {"rank 1 lists stage 0 after stage 0, expected ascending", [&] { rank(1).stages = {0, 0, 1}; }},
                });
}

// Where each stage is on one rank, two may still not hold it.
TEST_F(GroupRules, P9OneRankWithoutGroups) {
  plan = makePlan({});
  rank(1).stages = {0, 1};
  damaged("P9", {{"stage 0 is on rank 0 and on rank 1: copies of a stage have numbers of their own", [] {}}});
}

TEST_F(GroupRules, P11Reshards) {
  const auto change = [&](auto how) { return [=, this] { how(reshard(0, Payload::Forward, 0)); }; };
  const auto says = [](const std::string &what, int32_t stage = 0) {
    return "rank 0: operation 1 (reshard stage " + std::to_string(stage) + ") has " + what;
  };
  const std::string payload = says("an unknown payload kind, expected an activation or a gradient");
  damaged("P11",
          {
              {payload, change([](Operation &o) { o.of = Payload::None; })},
              {payload, change([](Operation &o) { o.of = Payload::Norm; })},
              {payload, change([](Operation &o) { o.of = Payload::Gradients; })},
              {payload, change([](Operation &o) { o.of = Payload::Weights; })},
              {says("no group, expected that of the wider stage"), change([](Operation &o) { o.group = -1; })},
              {says("no group, expected that of the wider stage"), change([](Operation &o) { o.group = -7; })},
              {says("a peer, which only transfers have"), change([](Operation &o) { o.peer = 1; })},
              {says("a latency, which only transfers have"), change([](Operation &o) { o.latency = 1; })},
              {says("a time out of range"), change([](Operation &o) { o.cost = -1; })},
              {says("a size out of range"), change([](Operation &o) { o.bytes = limits::kBytes + 1; })},
              {says("an activation, which only F, R, B and BW have"), change([](Operation &o) { o.activation = 1; })},
              {says("layers, which a norm or a reshard has not"), change([](Operation &o) { o.layers = 1; })},
              {says("layers out of range"), change([](Operation &o) { o.firstLayer = 1; })},
              {says("a byte range, which only collectives of layers have"), change([](Operation &o) { o.end = 1; })},
              {says("a stage that is not on this rank", -1), change([](Operation &o) { o.stage = -1; })},
              {says("a stage that is not on this rank", 3), change([](Operation &o) { o.stage = 3; })},
              {says("a stage that is not on this rank", INT32_MAX), change([](Operation &o) { o.stage = INT32_MAX; })},
              {"rank 3: operation 1 (reshard stage 1) has a stage that is not on this rank",
               [&] { reshard(3, Payload::Forward, 0).stage = 1; }},
              {"rank 0: operation 3 (reshard stage 0) has the kind and stage of operation 1",
               [&] { reshard(0, Payload::Forward, 1).stage = 0; }},
          });
  plan = makePlan({});
  Operation o;
  o.kind = Kind::Reshard;
  o.of = Payload::Forward;
  o.group = 0;
  rank(0).operations.push_back(o);
  damaged("P11", {{"rank 0: operation 5 (reshard stage 0) has no use where each stage is on one rank", [] {}}});
}

TEST_F(GroupRules, P13CollectivesShareAQueue) {
  rank(0).queues.push_back({QueueKind::Communicator, Priority::Compute});
  damaged("P13",
          {
              {"rank 0: instruction 11 (all_reduce stage 0) is on queue 2, an earlier collective of a group on 1",
               [&] { at(0, sumAt(0, 0)).queue = 2; }},
              {"rank 0: instruction 1 (reshard stage 0) is on the compute queue, expected a communicator",
               [&] { at(0, 1).queue = 0; }},
          });
}

TEST_F(GroupRules, P44GroupsOfStages) {
  const std::string others = " ranks, its group is of others";
  damaged("P44",
          {
              {"stage 0 is of group 2, the plan has 2", [&] { variant().stageGroups[0] = 2; }},
              {"stage 0 is on 4 ranks, expected no more than the 3 samples of the batch", [&] { variant().batch = 3; }},
              {"stage 2 is of group -2, the plan has 2", [&] { variant().stageGroups[2] = -2; }},
              {"stage 0 is on the first 4" + others, [&] { variant().stageGroups[0] = -1; }},
              {"stage 0 is on the first 4" + others, [&] { variant().stageGroups[0] = 1; }},
              {"stage 1 is on the first 2" + others, [&] { variant().stageGroups[1] = 0; }},
              {"stage 2 is on the first 1" + others, [&] { variant().stageGroups[2] = 1; }},
              {"stage 1 is on the first 2" + others, [&] { plan.groups[1].members = {0, 2}; }},
              {"stage 1 is on the first 2" + others, [&] { plan.groups[1].members = {2, 3}; }},
              {"group 1 has 1 members, expected two or more", [&] { plan.groups[1].members = {0}; }},
              {"group 0 has process 4, the plan has 0 to 3", [&] { plan.groups[0].members = {0, 1, 2, 3, 4}; }},
              {"rank 2: an operation (reshard stage 0) is of group 9, the plan has 2",
               [&] { reshard(2, Payload::Forward, 0).group = 9; }},
              {"ranks 0, 1, 2 have collectives of group 1, which is of 0, 1",
               [&] { reshard(2, Payload::Forward, 0).group = 1; }},
              {"ranks 0, 1, 2 have collectives of group 0, which is of 0, 1, 2, 3",
               [&] {
                 std::erase_if(rank(3).operations, [](const Operation &o) { return isCollective(o.kind); });
                 rank(3).waits.clear();
                 rank(3).instructions.clear();
                 rank(3).operations.resize(1);
                 setStep(rank(3), {{}}, {{}}, false);
               }},
          });
}

TEST_F(GroupRules, P45OneOfEach) {
  damaged("P45", {
                     {"variant 0 has stages on several ranks, of which there are 2 replicas and 1 shards, expected one "
                      "of each",
                      [&] {
                        plan.processes.clear();
                        for (int32_t r = 0; r != 4; ++r)
                          plan.processes.insert(plan.processes.end(), {{r, 0, 0}, {r, 1, 0}});
                      }},
                     {"variant 0 has stages on several ranks, of which there are 1 replicas and 2 shards, expected one "
                      "of each",
                      [&] {
                        plan.processes.clear();
                        for (int32_t r = 0; r != 4; ++r)
                          plan.processes.insert(plan.processes.end(), {{r, 0, 0}, {r, 0, 1}});
                        variant().own.resize(8);
                      }},
                     {"variant 0 has 0 layers with 1 replicas of each rank, expected those of all stages",
                      [&] { variant().layers.clear(); }},
                     {"variant 0 shares its ports with an exchange of replicas, of which there are none",
                      [&] { variant().sharedPort = true; }},
                 });
}

TEST_F(GroupRules, P21EachRankDoesItsStages) {
  wrong("P21", {
                   {"stage 0 executes 0 F of a layer a step, expected 2",
                    [&] {
                      const size_t first = passAt(2, Kind::Forward, 0);
                      drop(2, first);
                    }},
                   {"stage 1 executes 0 B and BW of a layer a step, expected 2",
                    [&] { drop(1, passAt(1, Kind::Backward, 1)); }},
               });
}

// Stages change ranks by reshards alone.
TEST_F(GroupRules, P23Transfers) {
  for (const auto &[r, kind, stage] : {std::tuple(0, Kind::Send, 0), std::tuple(1, Kind::Recv, 1)}) {
    Program &p = rank(size_t(r));
    p.queues.push_back({QueueKind::Communicator, Priority::Compute});
    Operation o;
    o.kind = kind;
    o.of = Payload::Forward;
    o.stage = stage;
    o.peer = 1 - r;
    p.rings.push_back({1 - r, kind == Kind::Send ? Direction::Send : Direction::Recv, 1, 0});
    p.instructions.push_back({uint32_t(p.operations.size()), uint32_t(p.queues.size()) - 1, 0, 0, 0, 0});
    p.operations.push_back(o);
    ++p.step[0].count;
  }
  wrong("P22", {{"rank 1: recv F stage 1 microbatch 0 from rank 0: stage 0 is on rank 3", [] {}}});
}

TEST_F(GroupRules, P33MemoryOfEachRank) {
  wrong("P33", {
                   {"rank 2: BW of stage 0 releases 128 MiB of activation, its F holds 192 MiB",
                    [&] { pass(2, Kind::Forward, 0).activation = Bytes(192) << 20; }},
               });
}

TEST_F(GroupRules, P47EachRankSumsAndUpdates) {
  wrong("P47", {
                   {"byte 0 of stage 0 is not summed in a step", [&] { drop(2, sumAt(2, 0)); }},
                   {"byte 8388607 of stage 1 is not summed in a step", [&] { sum(1, 1).end = --sum(1, 1).bytes; }},
                   {"byte 0 of stage 0 is summed more than once a step",
                    [&] { at(1, sumAt(1, 1)).operation = at(1, sumAt(1, 0)).operation; }},
                   {"layer 0 of stage 0 is not updated in a step", [&] { drop(3, passAt(3, Kind::Optimizer, 0)); }},
                   {"layer 0 of stage 2 is not updated in a step", [&] { drop(0, passAt(0, Kind::Optimizer, 2)); }},
                   {"gradients of stage 0 are exchanged, which no update takes",
                    [&] {
                      for (size_t r = 0; r != 4; ++r)
                        for (int32_t stage = 0; stage != int32_t(rank(r).stages.size()); ++stage)
                          drop(r, passAt(r, Kind::Optimizer, stage));
                    }},
               });
}

TEST_F(GroupRules, P48SumsWait) {
  const std::string text = " does not wait for the last backward of what it sums";
  wrong("P48", {
                   {"rank 0: all_reduce gradients stage 1 layers 0 to 1 bytes 0 to 8388607 group 1" + text,
                    [&] {
                      forget(0, sumAt(0, 1), 0);
                      move(0, sumAt(0, 1), reshardAt(0, Payload::Backward, 2));
                      move(1, sumAt(1, 1), passAt(1, Kind::Backward, 1));
                    }},
                   {"rank 3: all_reduce gradients stage 0 layers 0 to 1 bytes 0 to 8388607 group 0" + text,
                    [&] { forget(3, sumAt(3, 0), 0); }},
               });
}

TEST_F(GroupRules, P49UpdatesWait) {
  const auto of = [](int32_t r, int32_t stage) {
    return "rank " + std::to_string(r) + ": optimizer stage " + std::to_string(stage);
  };
  wrong("P49", {
                   {of(2, 0) + " does not wait for the sum of its gradients",
                    [&] { forget(2, passAt(2, Kind::Optimizer, 0), kCollectives); }},
                   {of(1, 1) + " does not wait for the sum of its gradients",
                    [&] { forget(1, passAt(1, Kind::Optimizer, 1), kCollectives); }},
                   {of(0, 2) + " does not wait for the last backward of its layers", // that nobody sums
                    [&] { move(0, passAt(0, Kind::Optimizer, 2), passAt(0, Kind::Forward, 2)); }},
               });
  plan = makeBurst({.updates = true});
  wrong("P49", {{of(0, 2) + " does not wait for the last backward of its layers",
                 [&] { forget(0, passAt(0, Kind::Optimizer, 2), 0); }}});
  plan = makeBurst({.norm = true});
  wrong("P49", {{of(0, 2) + " does not wait for the norm", [&] { forget(0, passAt(0, Kind::Optimizer, 2), 2); }},
                {of(3, 0) + " does not wait for the norm", [&] { forget(3, passAt(3, Kind::Optimizer, 0), 2); }}});
}

// The norm is that of all gradients: of those that are summed, and of those that one rank has alone.
TEST_F(GroupRules, P39NormsWait) {
  plan = makeBurst({.widths = {1, 2}, .early = true, .norm = true});
  const auto normAt = [&](size_t r) {
    return placeOf(rank(r), Kind::AllReduce, Payload::Norm, rank(r).stages.front());
  };
  wrong("P39", {
                   {"rank 1: all_reduce norm does not wait for the last sum of its rank's gradients",
                    [&] { forget(1, normAt(1), kCollectives); }},
                   {"rank 0: all_reduce norm does not wait for the last backward of its rank",
                    [&] { forget(0, normAt(0), 0); }},
               });
}

TEST_F(GroupRules, P50ForwardsWait) {
  plan = makeBurst({.updates = true});
  for (const size_t r : {0u, 1u, 3u}) // stage 0 is the last to be updated
    wrong("P50", {{"rank " + std::to_string(r) +
                       ": F stage 0 microbatch 0 does not wait for the update of layer 0 in the step before",
                   [&] { forget(r, passAt(r, Kind::Forward, 0), kUpdates); }}});
}

TEST_F(GroupRules, P57EachRankHasItsReshards) {
  const auto says = [](int32_t r, int found, const std::string &what, int expected) {
    return "rank " + std::to_string(r) + " executes " + std::to_string(found) + " reshard " + what +
           " a step, expected " + std::to_string(expected);
  };
  wrong("P57", {
                   {says(3, 0, "F stage 0", 1), [&] { drop(3, reshardAt(3, Payload::Forward, 0)); }},
                   {says(3, 0, "B stage 1", 1), [&] { drop(3, reshardAt(3, Payload::Backward, 1)); }},
                   {says(0, 0, "F stage 1", 1), [&] { drop(0, reshardAt(0, Payload::Forward, 1)); }},
                   {says(1, 2, "F stage 0", 1),
                    [&] { at(1, reshardAt(1, Payload::Backward, 1)).operation = at(1, 1).operation; }},
                   {says(0, 1, "F stage 2", 0), // there is no stage 3
                    [&] {
                      Operation o = reshard(0, Payload::Forward, 1);
                      o.stage = 2;
                      append(0, o);
                    }},
                   {says(0, 1, "B stage 0", 0),
                    [&] {
                      Operation o = reshard(0, Payload::Backward, 1);
                      o.stage = 0;
                      append(0, o);
                    }},
               });
  const auto appended = [&](Payload of, int32_t stage) {
    return [=, this] {
      for (size_t r = 0; r != 2; ++r) {
        Operation o;
        o.kind = Kind::Reshard;
        o.of = of;
        o.stage = stage;
        o.group = 0;
        append(r, o);
      }
    };
  };
  plan = makeBurst({.widths = {2, 2}});
  wrong("P57", {{says(0, 1, "F stage 0", 0), appended(Payload::Forward, 0)},
                {says(0, 1, "B stage 1", 0), appended(Payload::Backward, 1)}});
  plan = makeBurst({.widths = {2, 1}, .backward = false});
  wrong("P57", {{says(0, 1, "B stage 1", 0), appended(Payload::Backward, 1)}});
}

TEST_F(GroupRules, P57Groups) {
  const std::string bytes = " layers 0 to 1 bytes 0 to 8388607 group ";
  wrong("P57", {
                   {"rank 0: reshard F stage 1 is of group 0, expected 1, that of the wider stage",
                    [&] { reshard(0, Payload::Forward, 1).group = 0; }},
                   {"rank 1: reshard B stage 1 is of group 1, expected 0, that of the wider stage",
                    [&] { reshard(1, Payload::Backward, 1).group = 1; }},
                   {"rank 0: all_reduce gradients stage 1" + bytes + "0 is of group 0, expected 1, that of its stage",
                    [&] { sum(0, 1).group = 0; }},
                   {"rank 0: all_reduce gradients stage 2" + bytes + "1 is of group 1, expected -1, that of its stage",
                    [&] {
                      Operation o = sum(0, 1);
                      o.stage = 2;
                      append(0, o);
                    }},
               });
}

TEST_F(GroupRules, P57ReshardsWait) {
  const std::string made = " does not wait for the pass whose result changes ranks";
  const std::string taken = " does not wait for its input to change ranks";
  wrong("P57",
        {
            {"rank 3: reshard F stage 0 group 0" + made, [&] { forget(3, reshardAt(3, Payload::Forward, 0), 0); }},
            {"rank 0: reshard F stage 1 group 1" + made, [&] { forget(0, reshardAt(0, Payload::Forward, 1), 0); }},
            {"rank 1: reshard B stage 1 group 0" + made, [&] { forget(1, reshardAt(1, Payload::Backward, 1), 0); }},
            {"rank 1: F stage 1 microbatch 0" + taken, [&] { forget(1, passAt(1, Kind::Forward, 1), kCollectives); }},
            {"rank 0: F stage 2 microbatch 0" + taken, [&] { forget(0, passAt(0, Kind::Forward, 2), kCollectives); }},
            {"rank 1: BW stage 1 microbatch 0" + taken, [&] { forget(1, passAt(1, Kind::Backward, 1), kCollectives); }},
            {"rank 2: BW stage 0 microbatch 0" + taken, [&] { forget(2, passAt(2, Kind::Backward, 0), kCollectives); }},
        });
}

// The part that runs first takes what changes ranks, the one that runs last makes it.
TEST_F(GroupRules, P57Parts) {
  plan = makeBurst({.widths = {2, 1}});
  for (const Kind kind : {Kind::Forward, Kind::Backward})
    for (size_t r = 0; r != 2; ++r)
      cut(r, kind, 0);
  isRight(plan);
  const auto less = [&](size_t i) { return [=, this] { --waitOf(rank(1), at(1, i), 0).base; }; };
  wrong("P57", {
                   {"rank 1: reshard F stage 0 group 0 does not wait for the pass whose result changes ranks",
                    less(reshardAt(1, Payload::Forward, 0))},
                   {"rank 1: BW stage 0 layer 1 microbatch 0 does not wait for its input to change ranks",
                    [&] { forget(1, passAt(1, Kind::Backward, 0), kCollectives); }},
               });
  wrong("P48", {{"rank 1: all_reduce gradients stage 0 layers 0 to 1 bytes 0 to 8388607 group 0 does not wait for the "
                 "last backward of what it sums",
                 less(sumAt(1, 0))}});
}

// Without backwards nothing else keeps a rank that alone hands on or alone takes from being a step ahead.
TEST_F(GroupRules, P57AcrossSteps) {
  plan = makeBurst({.widths = {3, 1}, .backward = false});
  wrong("P57", {{"rank 2: F stage 0 microbatch 0 does not wait until what it made in the step before has changed ranks",
                 [&] { forget(2, passAt(2, Kind::Forward, 0), kCollectives); }}});
  plan = makeBurst({.widths = {1, 3}, .backward = false});
  wrong("P57", {{"rank 1: reshard F stage 0 group 0 does not wait until what it brought in the step before is used up",
                 [&] { forget(1, reshardAt(1, Payload::Forward, 0), 0); }}});
  // With backwards the waits of this step show it.
  plan = makeBurst({.widths = {3, 1, 2}});
  for (size_t r = 0; r != 3; ++r)
    for (Wait &wait : rank(r).waits)
      wait.base = wait.previousStep ? 0 : wait.base;
  isRight(plan);
}

TEST_F(GroupRules, P58OneOrder) {
  const auto text = [](int32_t r, const char *payload, int32_t stage, int64_t bytes, const char *time) {
    return "rank " + std::to_string(r) + ": reshard " + payload + " stage " + std::to_string(stage) + " group 0 of " +
           std::to_string(bytes) + " bytes in " + time;
  };
  const auto sumText = [](int32_t r, Bytes begin, Bytes end) {
    return "rank " + std::to_string(r) + ": all_reduce gradients stage 0 layers 0 to 1 bytes " + std::to_string(begin) +
           " to " + std::to_string(end - 1) + " group 0 of " + std::to_string(end - begin) + " bytes in 3 ms";
  };
  constexpr Bytes kAll = 8 << 20, kPart = 5 << 20;
  const std::string right = ", " + text(0, "F", 0, 2097152, "1.1 ms");
  wrong("P58", {
                   {"collective 0 of group 0 is " + text(2, "F", 0, 2097153, "1.1 ms") + right,
                    [&] { reshard(2, Payload::Forward, 0).bytes += 1; }},
                   {"collective 0 of group 0 is " + text(3, "F", 0, 2097152, "1 ms") + right,
                    [&] { reshard(3, Payload::Forward, 0).cost -= 100'000'000; }},
                   {"collective 0 of group 0 is " + text(3, "B", 1, 2097152, "1.1 ms") + right,
                    [&] { exchangeAt(3, reshardAt(3, Payload::Forward, 0), reshardAt(3, Payload::Backward, 1)); }},
                   {"collective 1 of group 0 is " + sumText(3, 0, kAll) + ", " + text(0, "B", 1, 2097152, "1.1 ms"),
                    [&] { exchangeAt(3, reshardAt(3, Payload::Backward, 1), sumAt(3, 0)); }},
                   {"collective 2 of group 0 is " + sumText(1, 0, kPart) + ", " + sumText(0, 0, kAll),
                    [&] {
                      Operation rest = sum(1, 0);
                      sum(1, 0).end = sum(1, 0).bytes = rest.begin = kPart;
                      rest.firstLayer = rest.layers = 1;
                      rest.bytes = rest.end - rest.begin;
                      append(1, rest);
                    }},
               });
}

// Gathers of layers without gradients, of which P47 asks nothing.
TEST_F(GroupRules, P58AsMany) {
  plan = makeBurst({.widths = {3}, .layers = 1, .gradients = 0});
  variant().layers[0].weights = 8;
  Operation gather;
  gather.kind = Kind::AllGather;
  gather.of = Payload::Weights;
  gather.layers = 1;
  gather.bytes = gather.end = 8;
  gather.group = 0;
  for (Program &program : variant().programs)
    program.operations.push_back(gather); // which all have and some execute
  const auto gathers = [&](const std::vector<size_t> &ranks) {
    return [=, this] {
      for (const size_t r : ranks) {
        Program &program = rank(r);
        program.instructions.push_back({uint32_t(program.operations.size()) - 1, kCollectives, 0, 0, 0, 0});
        ++program.step[0].count;
      }
    };
  };
  isRight(plan);
  wrong("P58", {
                   {"rank 1 executes 0 collectives of group 0 a step, rank 0 1", gathers({0})},
                   {"rank 2 executes 0 collectives of group 0 a step, rank 0 1", gathers({0, 1})},
                   {"collective 0 of group 0 is rank 2: all_gather weights stage 0 layer 0 group 0 of 8 bytes in 0 ps, "
                    "rank 0 has none",
                    gathers({2})},
               });
  gathers({0, 1, 2})();
  isRight(plan);
}

} // namespace
} // namespace pipec::plan
