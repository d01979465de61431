// Rules P5 to P20 and P59, each broken in a plan that is right otherwise.
#include "runtime/plan/Limits.h"
#include "runtime/plan/Units.h"
#include "runtime/plan/rules/Rules.h"
#include "test/plan/Refused.h"

#include <algorithm>
#include <flatbuffers/flexbuffers.h>
#include <functional>

namespace pipec::plan {
namespace {

using namespace test;

class TableRules : public ::testing::Test {
protected:
  Plan plan = makePlan({});
  Variant &variant() { return plan.variants[0]; }
  Program &rank(size_t r) { return variant().programs[r]; }

  void refused(const char *label) { expectRefused(plan, label, Code::Input); }
  /// Each change alone is refused.
  void eachRefused(const char *label, const std::vector<std::function<void()>> &changes) {
    expectEachRefused(plan, label, Code::Input, changes);
  }
};

TEST_F(TableRules, RightPlansPass) {
  for (const int32_t ranks : {1, 2, 4, 7})
    for (const int32_t microbatches : {1, 3, 8, 20})
      for (const int mode : {0, 1, 2, 3})
        for (const bool rolled : {false, true})
          for (const int32_t stages : {1, 2}) {
            Make make;
            make.ranks = ranks;
            make.microbatches = microbatches;
            make.split = mode == 1;
            make.deferred = mode == 2;
            make.backward = mode != 3;
            make.rolled = rolled;
            make.stagesPerRank = stages;
            make.slots = std::min(2, microbatches);
            for (const bool recompute : {false, true}) {
              make.recompute = recompute && make.backward;
              const Status status = verify(makePlan(make));
              EXPECT_TRUE(status.ok()) << status.message;
            }
          }
  for (const int32_t ranks : {1, 2, 4, 7})
    for (const int32_t microbatches : {1, 3, 8, 20})
      for (const bool rolled : {false, true}) {
        Make make;
        make.ranks = ranks;
        make.microbatches = microbatches;
        make.rolled = rolled;
        make.overlapped = 22'000'000'000;
        make.slots = std::min(2, microbatches);
        const Status status = verify(makePlan(make));
        EXPECT_TRUE(status.ok()) << ranks << " " << microbatches << " " << status.message;
      }
}

TEST_F(TableRules, P6Supported) {
  for (const Kind kind : {Kind::Offload, Kind::Load}) {
    rank(0).operations[0].kind = kind;
    refused("P6");
  }
  plan = makePlan({});
  rank(0).queues.push_back({QueueKind::Device, Priority::Jobs});
  refused("P6");
}

TEST_F(TableRules, P7Sizes) {
  eachRefused("P7", {
                        [&] { plan.variants.clear(); },
                        [&] { plan.variants.resize(size_t(limits::kVariants) + 1, Variant(variant())); },
                        [&] { variant().stages = 0; },
                        [&] { variant().stages = INT32_MAX; },
                        [&] { variant().microbatches = 0; },
                        [&] { variant().microbatches = int32_t(limits::kMicrobatches) + 1; },
                        [&] { variant().memoryLimit = -1; },
                        [&] { variant().copies = 0; },
                        [&] { variant().copies = 3; },
                        [&] { variant().slices = 0; },
                        [&] { variant().slices = 3; }, // of eight microbatches
                        [&] { variant().slices = 16; },
                        [&] { rank(1).staticBytes = -1; },
                        [&] { rank(1).workspace = limits::kBytes + 1; },
                        [&] { rank(1).memoryLimit = 1; }, // the variant has none
                        [&] {
                          Make other;
                          other.stagesPerRank = 2;
                          plan.variants.push_back(makePlan(other).variants[0]);
                        },
                    });
}

TEST_F(TableRules, P45Processes) {
  eachRefused("P45", {
                         [&] { plan.processes.pop_back(); },
                         [&] { plan.processes.push_back({4, 0, 0}); },
                         [&] { std::swap(plan.processes[0], plan.processes[1]); },
                         [&] { plan.processes[1].replica = 1; },
                         [&] { plan.processes[1].shard = 1; },
                     });
}

TEST_F(TableRules, P9Stages) {
  eachRefused("P9", {
                        [&] { rank(1).rank = 2; }, [&] { rank(1).stages = {}; }, [&] { rank(1).stages = {2}; },
                        [&] { rank(1).stages = {4}; }, [&] { rank(1).stages = {-1}; }, [&] { rank(1).stages = {1, 1}; },
                        [&] { rank(1).stages = {1, 0}; }, [&] { variant().stages = 5; },
                        [&] { variant().copies = 2; }, // stage 2 is on rank 2, expected rank 3
                    });
}

TEST_F(TableRules, P10Queues) {
  eachRefused("P10", {
                         [&] { rank(0).queues.clear(); },
                         [&] { rank(0).queues[0].kind = QueueKind::Communicator; },
                         [&] { rank(0).queues[0].priority = Priority::Weights; },
                         [&] { rank(0).queues[1].priority = Priority::Weights; },
                         [&] { rank(0).queues[1].kind = QueueKind(7); },
                         [&] { rank(0).queues[1].priority = Priority(7); },
                         [&] { rank(0).queues.push_back({QueueKind::Device, Priority::Compute}); },
                         [&] { rank(0).queues.resize(5, {QueueKind::Device, Priority::Weights}); },
                     });
}

TEST_F(TableRules, P11Operations) {
  Program &p = rank(1);
  Operation &f = operationOf(p, Kind::Forward);
  Operation &send = operationOf(p, Kind::Send, Payload::Forward);
  const size_t fAt = size_t(&f - p.operations.data()), sendAt = size_t(&send - p.operations.data());
  const auto change = [&](size_t at, auto how) { return [=, this] { how(rank(1).operations[at]); }; };
  eachRefused("P11", {
                         change(fAt, [](Operation &o) { o.kind = Kind(kKinds); }),
                         change(fAt, [](Operation &o) { o.stage = 0; }),
                         change(fAt, [](Operation &o) { o.cost = -1; }),
                         change(fAt, [](Operation &o) { o.cost = limits::kTime + 1; }),
                         change(fAt, [](Operation &o) { o.latency = 1; }),
                         change(fAt, [](Operation &o) { o.bytes = -1; }),
                         change(fAt, [](Operation &o) { o.activation = -1; }),
                         change(fAt, [](Operation &o) { o.context = limits::kBytes + 1; }),
                         change(fAt, [](Operation &o) { o.peer = 0; }),
                         change(fAt, [](Operation &o) { o.of = Payload::Forward; }),
                         change(sendAt, [](Operation &o) { o.peer = 1; }),
                         change(sendAt, [](Operation &o) { o.peer = 4; }),
                         change(sendAt, [](Operation &o) { o.peer = -1; }),
                         change(sendAt, [](Operation &o) { o.of = Payload::None; }),
                         change(sendAt, [](Operation &o) { o.of = Payload(9); }),
                         change(sendAt, [](Operation &o) { o.latency = -1; }),
                         change(sendAt, [](Operation &o) { o.activation = 1; }),
                         change(sendAt, [](Operation &o) { o.context = 1; }),
                         change(fAt, [](Operation &o) { o.group = 0; }),
                         change(fAt, [](Operation &o) { o.firstLayer = 1; }),
                         change(fAt, [](Operation &o) { o.layers = 1; }), // there are no replicas
                         change(sendAt, [](Operation &o) { o.of = Payload::Gradients; }),
                         change(sendAt, [](Operation &o) { o.group = 0; }),
                         [&] { rank(1).operations.push_back(rank(1).operations[0]); },
                         [&] { operationOf(rank(1), Kind::Backward).bytes = 1; }, // an input is of F and R
                     });
  Make norm;
  norm.norm = true;
  plan = makePlan(norm);
  const auto reduce = [&](auto how) { return [=, this] { how(operationOf(rank(1), Kind::AllReduce)); }; };
  eachRefused("P11", {
                         reduce([](Operation &o) { o.of = Payload::None; }),
                         reduce([](Operation &o) { o.of = Payload::Forward; }),
                         reduce([](Operation &o) { o.of = Payload(9); }),
                         reduce([](Operation &o) { o.of = Payload::Gradients; }), // of whom
                         reduce([](Operation &o) { o.group = 0; }),
                         reduce([](Operation &o) { o.group = -2; }),
                         reduce([](Operation &o) { o.peer = 0; }),
                         reduce([](Operation &o) { o.kind = Kind::ReduceScatter; }),
                         reduce([](Operation &o) { o.kind = Kind::AllGather, o.of = Payload::Gradients, o.group = 0; }),
                         reduce([](Operation &o) { o.end = 8; }),
                     });
}

TEST_F(TableRules, P44Groups) {
  plan = makeCopies();
  eachRefused("P44", {
                         [&] { plan.groups.clear(); },
                         [&] { plan.groups[0].members = {0}; },
                         [&] { plan.groups[0].members = {1, 0}; },
                         [&] { plan.groups[0].members = {0, 0, 1}; },
                         [&] { plan.groups[0].members = {0, 2}; },
                         [&] { plan.groups[0].members = {-1, 0}; },
                         [&] { plan.groups.push_back({}); },
                         [&] { operationOf(rank(1), Kind::AllReduce).group = 1; },
                         [&] { // of which rank 1 is no member, and rank 0 has nothing
                           plan.groups.push_back({{0, 1}});
                           operationOf(rank(1), Kind::AllReduce).group = 1;
                         },
                     });
  plan.groups.push_back({{0, 1}}); // which nobody uses
  EXPECT_TRUE(checkTables(plan).ok());
}

TEST_F(TableRules, P12Streams) {
  eachRefused("P12", {
                         [&] { rank(0).step.clear(); },
                         [&] { rank(0).step.pop_back(); },
                         [&] { rank(0).step[0].trips = 0; },
                         [&] { rank(0).step[0].count = 0; },
                         [&] { rank(0).step[0].first = 1; },
                         [&] { rank(0).step[0].count = UINT32_MAX; },
                         [&] { rank(0).step.push_back({uint32_t(rank(0).instructions.size()), 1, 1}); },
                         [&] { rank(0).waits.push_back({}); },
                         [&] { rank(0).waits.pop_back(); },
                         [&] { firstOf(rank(0), Kind::Forward).firstWait = 1; },
                         [&] { firstOf(rank(0), Kind::Forward).waits = UINT32_MAX; },
                     });
}

TEST_F(TableRules, P13Instructions) {
  eachRefused("P13", {
                         [&] { rank(0).instructions[0].operation = 1000; },
                         [&] { rank(0).instructions[0].queue = 1000; },
                         [&] { firstOf(rank(0), Kind::Forward).queue = 1; },
                         [&] { firstOf(rank(0), Kind::Send, Payload::Forward).queue = 0; },
                         [&] { firstOf(rank(0), Kind::Send, Payload::Forward).queue = 2; },
                         [&] {
                           rank(0).queues.push_back({QueueKind::Device, Priority::Weights});
                           firstOf(rank(0), Kind::Forward).queue = uint32_t(rank(0).queues.size() - 1);
                         },
                     });
}

TEST_F(TableRules, P14Lengths) {
  const auto longest = [&] {
    return std::max_element(rank(0).step.begin(), rank(0).step.end(),
                            [](const Segment &a, const Segment &b) { return a.trips < b.trips; });
  };
  eachRefused("P14", {
                         [&] { longest()->trips = UINT32_MAX; },
                         [&] { longest()->trips = uint32_t(limits::kRankInstructions); },
                         [&] {
                           operationOf(rank(0), Kind::Forward).cost = limits::kTime;
                           longest()->trips = 1'000'000;
                         },
                     });
  Make many; // each rank within its limit, all together over theirs
  many.ranks = 32;
  plan = makePlan(many);
  for (Program &program : plan.variants[0].programs)
    program.step[0].trips = uint32_t(limits::kRankInstructions / 2 / program.step[0].count);
  for (Program &program : plan.variants[0].programs)
    for (Operation &o : program.operations)
      o.cost = o.latency = 0;
  refused("P14");
}

TEST_F(TableRules, P14Waits) {
  Program &p = rank(0);
  // One instruction with many waits, often.
  p.instructions = {{0, 0, 0, 4096, 0, 0}};
  p.waits.assign(4096, {});
  p.step = {{0, 1, 1 << 21}};
  p.operations.resize(1);
  p.operations[0].cost = 0;
  refused("P14");
}

TEST_F(TableRules, P15Rings) {
  eachRefused("P15", {
                         [&] { rank(0).rings.pop_back(); },
                         [&] { rank(0).rings.push_back(rank(0).rings[0]); },
                         [&] { rank(0).rings[0].peer = 3; },
                         [&] { rank(0).rings[0].direction = Direction(5); },
                         [&] { rank(0).rings[0].size = 0; },
                         [&] { rank(0).rings[0].size = 9; },
                         [&] { rank(0).rings[0].size = UINT32_MAX; },
                         [&] { rank(0).rings[0].slotBytes -= 1; },
                         [&] { rank(0).rings[0].slotBytes = limits::kBytes + 1; },
                     });
}

TEST_F(TableRules, P16Microbatches) {
  Instruction &last = rank(0).instructions[rank(0).step.back().first + rank(0).step.back().count - 2];
  const size_t at = size_t(&last - rank(0).instructions.data());
  eachRefused("P16", {
                         [&] { rank(0).instructions[0].microbatch = -1; },
                         [&] { rank(0).instructions[0].microbatch = 8; },
                         [&] { rank(0).instructions[at].microbatch = INT32_MAX; },
                         [&] { firstOf(rank(0), Kind::Optimizer).microbatch = 1; },
                         [&] {
                           for (const Segment &s : rank(0).step)
                             if (s.trips > 1)
                               rank(0).instructions[s.first].microbatchStride = INT32_MIN;
                         },
                     });
}

TEST_F(TableRules, P17WaitCounts) {
  eachRefused("P17", {
                         [&] { rank(0).waits[0].queue = 1000; },
                         [&] { rank(0).waits[0].base = -1; },
                         [&] { rank(0).waits[0].base = 9; },
                         [&] { rank(0).waits[0].base = INT64_MAX; },
                         [&] { rank(0).waits[0].base = INT64_MIN; },
                         [&] {
                           for (const Segment &s : rank(0).step)
                             for (uint32_t i = s.first; s.trips > 1 && i < s.first + s.count; ++i)
                               for (uint32_t w = 0; w < rank(0).instructions[i].waits; ++w)
                                 rank(0).waits[rank(0).instructions[i].firstWait + w].stride = INT64_MIN;
                         },
                     });
}

TEST_F(TableRules, P18WaitsLookBack) {
  for (const bool rolled : {false, true}) {
    Make make;
    make.rolled = rolled;
    plan = makePlan(make);
    Instruction &send = firstOf(rank(0), Kind::Send, Payload::Forward);
    ++waitOf(rank(0), send, 0).base;
    refused("P18");
  }
  // Right in the first trip, too far in the last.
  plan = makePlan({});
  for (const Segment &s : rank(0).step)
    for (uint32_t i = s.first; s.trips > 1 && i < s.first + s.count; ++i)
      if (rank(0).operations[rank(0).instructions[i].operation].kind == Kind::Recv) {
        Wait &wait = waitOf(rank(0), rank(0).instructions[i], 0);
        wait.base = 0;
        wait.stride = 16 / (s.trips - 1);
      }
  refused("P18");
}

TEST_F(TableRules, P19Certificate) {
  eachRefused("P19", {
                         [&] { variant().certificate.makespan = -1; },
                         [&] { variant().certificate.span = limits::kTime + 1; },
                         [&] { variant().certificate.lowerBound = LeastTime::proven(1); },
                         [&] { variant().certificate.spanLowerBound = LeastTime::proven(1); },
                         [&] { variant().certificate.bound = Bound(9); },
                         [&] { variant().certificate.spanBound = Bound(200); },
                         [&] { variant().cutBound = LeastTime::proven(-1); },
                         [&] { variant().cutBound = LeastTime::proven(variant().certificate.makespan + 1); },
                         [&] { variant().cut.assign(size_t(variant().stages) + 1, 1); },
                         [&] { variant().cut.assign(size_t(variant().stages), 0); },
                         [&] { variant().cut.assign(size_t(variant().stages), INT32_MAX); },
                     });
}

TEST_F(TableRules, P20Provider) {
  flexbuffers::Builder builder;
  builder.Map([&] { builder.Int("hidden", 256); });
  builder.Finish();
  plan.provider = builder.GetBuffer();
  EXPECT_TRUE(verify(plan).ok());
  plan.provider = {1, 2, 200};
  refused("P20");
  plan.provider.assign(size_t(limits::kProviderBytes) + 1, 0);
  refused("P20");
}

TEST_F(TableRules, P20KeysEndInsideTheValues) {
  flexbuffers::Builder map, keys;
  map.Map([&] { map.Int("hidden", 5); });
  keys.TypedVector([&] { keys.Key("hidden"); });
  for (flexbuffers::Builder *builder : {&map, &keys}) {
    builder->Finish();
    plan.provider = builder->GetBuffer();
    EXPECT_TRUE(verify(plan).ok());
    ASSERT_EQ(std::count(plan.provider.begin(), plan.provider.end(), 0), 1) << "the end of the key";
    std::replace(plan.provider.begin(), plan.provider.end(), uint8_t(0), uint8_t('n'));
    refused("P20");
  }
}

TEST_F(TableRules, P59Names) {
  const std::string longest(size_t(limits::kNameBytes), 'n');
  for (const std::string &right : {std::string(), longest, std::string("\u00dcber \u6d41\u6c34\u7ebf \U0001f682")}) {
    variant().name = variant().schedule = right;
    EXPECT_TRUE(verify(plan).ok()) << right;
  }
  const std::string wrong[] = {longest + "n", "\xff",       "a\xc3", "\xc0\x80",  "\xed\xa0\x80", "\xf4\x90\x80\x80",
                               "\x1b[31m",    "line\nfeed", "\x7f",  "\u009b31m", {"a\0b", 3}};
  for (const std::string &each : wrong) {
    SCOPED_TRACE(units::escaped(each));
    eachRefused("P59", {[&] { variant().name = each; }, [&] { variant().schedule = each; }});
  }
}

TEST_F(TableRules, TheVariantIsNamedWhereThereAreSeveral) {
  plan.variants.push_back(Variant(variant()));
  plan.variants[1].microbatches = 0;
  EXPECT_EQ(verify(plan).message.substr(0, 15), "P7: variant 1: ");
}

TEST_F(TableRules, P43Pairs) {
  Make make;
  make.ranks = 2;
  make.rolled = false;
  make.overlapped = 22'000'000'000;
  plan = makePlan(make);
  // The header of a pair on rank 0, its F and its BW.
  const auto header = [&] {
    std::vector<Instruction> &all = rank(0).instructions;
    return std::find_if(all.begin(), all.end(),
                        [&](const Instruction &i) { return rank(0).operations[i.operation].kind == Kind::Overlapped; });
  };
  const auto again = [&](auto change) { return [&, change] { plan = makePlan(make), change(header()); }; };
  eachRefused("P43", {
                         again([](auto at) { std::swap(at[1].operation, at[2].operation); }),
                         again([](auto at) { at[1].operation = at[2].operation; }),
                         again([](auto at) { at[2].operation = at[1].operation; }),
                         again([](auto at) { at[2].operation = at[0].operation; }),
                         again([](auto at) { at[2].microbatch = at[1].microbatch; }),
                         again([&](auto at) { // the last of a wait is the F's
                           at[1].firstWait = at[0].firstWait + --at[0].waits;
                           at[1].waits = 1;
                         }),
                         again([&](auto at) { // a segment ends behind the header
                           const auto first = uint32_t(at - rank(0).instructions.begin()) + 1;
                           rank(0).step = {{0, first, 1}, {first, uint32_t(rank(0).instructions.size()) - first, 1}};
                         }),
                     });
}

// A rolled pair is refused where its two meet in any trip.
TEST_F(TableRules, P43PairsThatMeet) {
  Make make;
  make.ranks = 1;
  make.microbatches = 20;
  make.overlapped = 22'000'000'000;
  plan = makePlan(make);
  ASSERT_TRUE(verify(plan).ok()) << verify(plan).message;
  for (size_t i = 0; i < rank(0).instructions.size(); ++i)
    if (Instruction &each = rank(0).instructions[i];
        rank(0).operations[each.operation].kind == Kind::Backward && each.microbatchStride == 1) {
      each.microbatch = 19;
      each.microbatchStride = -1; // F goes from 1 up
    }
  refused("P43");
}

} // namespace
} // namespace pipec::plan
