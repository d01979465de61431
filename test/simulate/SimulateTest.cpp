// The simulator against what can be known without it: published formulas, small cases worked out by hand, and programs
// that stop.
#include "runtime/simulate/Simulate.h"

#include "runtime/plan/Limits.h"
#include "runtime/plan/Load.h"
#include "runtime/simulate/Recording.h"
#include "test/plan/MakePlan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <map>
#include <set>

using namespace pipec;
using plan::Kind;
using plan::Payload;
using plan::Time;
using testing::HasSubstr;

namespace {

plan::Variant oneFOneB(plan::test::Make make) { return plan::test::makePlan(make).variants.front(); }

Time makespan(const plan::Variant &variant) {
  simulate::Result result;
  Status status = simulate::simulate(variant, {}, result);
  EXPECT_TRUE(status.ok()) << status.message;
  return result.makespan;
}

/// A plan of transfers alone between computes, written as instructions: each list is one rank's.
struct Line {
  Kind kind;
  Payload of;
  int32_t stage, peer;
  uint32_t queue;
  std::vector<plan::Wait> waits;
  int32_t microbatch = 0;
};

plan::Variant byHand(const std::vector<std::vector<Line>> &ranks, uint32_t queues, Time cost, Time wire, Time latency) {
  plan::Variant variant;
  variant.microbatches = 2;
  for (const auto &lines : ranks) {
    plan::Program &program = variant.programs.emplace_back();
    program.rank = int32_t(variant.programs.size() - 1);
    program.queues = {{plan::QueueKind::Device, plan::Priority::Compute},
                      {plan::QueueKind::Communicator, plan::Priority::Compute},
                      {plan::QueueKind::Device, plan::Priority::Weights}};
    program.queues.resize(queues);
    for (const Line &line : lines) {
      plan::Operation operation{line.kind, line.of, line.stage, line.peer, plan::isTransfer(line.kind) ? wire : cost};
      operation.latency = plan::isTransfer(line.kind) ? latency : 0;
      plan::Instruction instruction{
          uint32_t(program.operations.size()), line.queue,      uint32_t(program.waits.size()),
          uint32_t(line.waits.size()),         line.microbatch, 0};
      program.operations.push_back(operation);
      program.instructions.push_back(instruction);
      program.waits.insert(program.waits.end(), line.waits.begin(), line.waits.end());
    }
    program.step = {{0, uint32_t(program.instructions.size()), 1}};
  }
  return variant;
}

/// Every optimizer waits for the all-reduce, which waits for the slowest rank; a rank that never comes to it is named.
TEST(Simulate, AllReduceWaitsForAll) {
  plan::test::Make make;
  make.transfer = make.latency = 0;
  const Time without = makespan(oneFOneB(make));
  make.norm = true;
  plan::Variant variant = oneFOneB(make);
  // Rank 0 is the last to finish, so the others' optimizers end with its own.
  EXPECT_EQ(makespan(variant), without + make.normCost);
  std::vector<Time> starts;
  simulate::Options options;
  options.steps = 2;
  options.observe = [&](const simulate::Event &event) {
    if (event.operation->kind == Kind::Optimizer && event.step == 1)
      starts.push_back(event.start);
  };
  simulate::Result result;
  ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
  ASSERT_EQ(starts.size(), 4u);
  EXPECT_EQ(std::set<Time>(starts.begin(), starts.end()).size(), 1u);
  for (const simulate::PlaceResult &rank : result.places)
    EXPECT_EQ(rank.lastEnd[0], without + make.normCost);

  variant.programs[2] = oneFOneB({}).programs[2];
  Status status = simulate::simulate(variant, {}, result);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message, HasSubstr("all_reduce"));
}

// F0, seven pairs, the last backward, the optimizer; the two of a pair begin and end together.
TEST(Simulate, PairsTakeTheirOwnTime) {
  plan::test::Make make;
  make.ranks = 1;
  make.overlapped = 22'000'000'000;
  for (const bool rolled : {false, true}) {
    make.rolled = rolled;
    const plan::Variant variant = oneFOneB(make);
    std::vector<simulate::Event> events;
    simulate::Options options;
    options.observe = [&](const simulate::Event &event) { events.push_back(event); };
    simulate::Result result;
    ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
    const Time whole = make.backwardInput + make.backwardWeight;
    EXPECT_EQ(result.makespan, make.forward + 7 * make.overlapped + whole + make.optimizerCost);
    EXPECT_EQ(result.places[0].busy, result.makespan);
    EXPECT_EQ(result.places[0].peakActivation, 2 * (make.activation + make.context));
    int pairs = 0;
    for (size_t i = 0; i + 2 < events.size(); ++i) {
      if (events[i].operation->kind != Kind::Overlapped)
        continue;
      ++pairs;
      EXPECT_EQ(events[i].end, events[i].start);
      EXPECT_EQ(events[i + 1].operation->kind, Kind::Forward);
      EXPECT_EQ(events[i + 2].operation->kind, Kind::Backward);
      for (size_t with : {i + 1, i + 2}) {
        EXPECT_EQ(events[with].start, events[i].start);
        EXPECT_EQ(events[with].end, events[i].start + make.overlapped);
      }
    }
    EXPECT_EQ(pairs, 7);
  }
}

// With link and slots between two ranks, a pair waits for what either of its two needs, and what both yield leaves at
// its end: of rank 1's chain F0, then pairs, each a transfer after the rank before.
TEST(Simulate, PairsWaitForBoth) {
  plan::test::Make make;
  make.ranks = 2;
  make.overlapped = 22'000'000'000;
  simulate::Recording recording;
  const plan::Variant variant = oneFOneB(make);
  ASSERT_TRUE(recording.run(variant, {}).ok());
  int pairs = 0;
  for (int32_t rank : {0, 1}) {
    const std::vector<simulate::Executed> &own = recording.queue(rank, 0, 0);
    for (int64_t i = 0; i + 2 < int64_t(own.size()); ++i) {
      if (own[size_t(i)].operation->kind != Kind::Overlapped)
        continue;
      ++pairs;
      const simulate::Occurrence f{rank, 0, 0, i + 1}, b{rank, 0, 0, i + 2};
      EXPECT_EQ(recording.overlappedWith(f), b);
      EXPECT_EQ(recording.overlappedWith(b), f);
      const simulate::Cause cause = recording.causeOf(f), other = recording.causeOf(b);
      ASSERT_TRUE(cause.by.has_value());
      EXPECT_EQ(cause.by, other.by);
      EXPECT_EQ(recording.at(*cause.by).end, own[size_t(i)].start);
      EXPECT_NE(recording.at(*cause.by).operation->kind, Kind::Overlapped);
    }
  }
  EXPECT_EQ(pairs, 6 + 7);
}

} // namespace

// Field facts, section 3.1: fused 1F1B, equal stages, latency c, no bandwidth, as many buffers as microbatches.
TEST(Simulate, MakespanOfOneFOneBIsThePublishedFormula) {
  constexpr Time kForward = 3'000'000, kBackward = 5'000'000, kWeight = 4'000'000;
  for (int32_t p = 2; p <= 32; ++p)
    for (int32_t m : {p, p + 1, p + 3, 2 * p - 1, 4 * p})
      for (Time c : {Time(0), Time(1), Time(700'000), Time(9'000'001)}) {
        plan::Variant variant = oneFOneB({.ranks = p,
                                          .microbatches = m,
                                          .slots = uint32_t(m),
                                          .forward = kForward,
                                          .backwardInput = kBackward,
                                          .backwardWeight = kWeight,
                                          .optimizerCost = 0,
                                          .transfer = 0,
                                          .latency = c});
        Time expected = (m + p - 1) * (kForward + kBackward + kWeight) + 2 * c * (p - 1 + int64_t(m - 1) * (p - 1) / p);
        ASSERT_EQ(makespan(variant), expected) << "p " << p << ", m " << m << ", c " << c;
      }
}

TEST(Simulate, PeaksAreMicrobatchesInFlight) {
  for (int32_t p : {1, 2, 5, 8})
    for (int32_t m : {1, 2, 3, 8, 20}) {
      plan::Variant variant = oneFOneB({.ranks = p,
                                        .microbatches = m,
                                        .slots = 1,
                                        .activation = 100,
                                        .context = 7,
                                        .staticBytes = 1000,
                                        .workspace = 50});
      simulate::Result result;
      ASSERT_TRUE(simulate::simulate(variant, {}, result).ok());
      for (int32_t s = 0; s != p; ++s) {
        EXPECT_EQ(result.places[size_t(s)].peakActivation, 107 * std::min(m, p - s));
        plan::Bytes rings = 0;
        for (const plan::Ring &ring : variant.programs[size_t(s)].rings)
          rings += plan::Bytes(ring.size) * ring.slotBytes;
        EXPECT_EQ(result.places[size_t(s)].peak, result.places[size_t(s)].peakActivation + rings + 1050);
      }
    }
}

TEST(Simulate, RolledAndStraightProgramsRunAlike) {
  for (bool split : {false, true}) {
    plan::test::Make make{.ranks = 5, .microbatches = 23, .split = split, .rolled = false};
    plan::Variant straight = oneFOneB(make);
    make.rolled = true;
    plan::Variant rolled = oneFOneB(make);
    ASSERT_LT(rolled.programs[0].instructions.size(), straight.programs[0].instructions.size());
    auto events = [](const plan::Variant &variant) {
      std::map<std::tuple<int32_t, int, int, int32_t, int64_t, int64_t>, std::pair<Time, Time>> all;
      simulate::Options options;
      options.steps = 3;
      options.observe = [&](const simulate::Event &event) {
        all[{event.rank, int(event.operation->kind), int(event.operation->of), event.operation->stage, event.microbatch,
             event.step}] = {event.start, event.end};
      };
      simulate::Result result;
      EXPECT_TRUE(simulate::simulate(variant, options, result).ok());
      return all;
    };
    EXPECT_EQ(events(straight), events(rolled));
  }
}

TEST(Simulate, TimesAreThoseOfTheEvents) {
  for (bool rolled : {false, true}) {
    const plan::Variant variant = oneFOneB({.ranks = 3, .microbatches = 9, .deferred = true, .rolled = rolled});
    simulate::Options options;
    options.steps = 3;
    options.keepTimes = true;
    std::vector<std::vector<std::vector<std::pair<Time, Time>>>> times(variant.programs.size());
    bool overtaken = false;
    options.observe = [&](const simulate::Event &event) {
      auto &own = times[size_t(event.rank)];
      const auto count = size_t(plan::executed(variant.programs[size_t(event.rank)]));
      own.resize(size_t(options.steps), std::vector<std::pair<Time, Time>>(count));
      own[size_t(event.step)][size_t(event.index)] = {event.start, event.end};
      overtaken |= event.counted != event.end;
    };
    simulate::Result result;
    ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
    for (size_t rank = 0; rank != times.size(); ++rank)
      EXPECT_EQ(result.places[rank].times, times[rank]) << rank;
    EXPECT_EQ(result.overtaken, overtaken);
  }
}

// Turns on a shared device that have passed are not kept: what a step takes grows with its instructions, not with their
// square, which were many minutes of these.
TEST(Simulate, SharedDevicesTakeTimeThatGrowsEvenly) {
  const plan::Variant variant = oneFOneB({.ranks = 16, .microbatches = 8000, .deferred = true});
  const std::clock_t begin = std::clock();
  simulate::Result result;
  ASSERT_TRUE(simulate::simulate(variant, {.steps = 2, .observe = {}}, result).ok());
  EXPECT_LT(double(std::clock() - begin) / CLOCKS_PER_SEC, 200);
}

// Two sends follow each other on a link: the wire is held for its cost, the data arrive a latency later.
TEST(Simulate, LinksSerialiseAndLatencyDoesNot) {
  auto send = [](int32_t microbatch, int64_t after) {
    return Line{Kind::Send, Payload::Forward, 0, 1, 1, {{0, false, after, 0}}, microbatch};
  };
  auto recv = [](int32_t microbatch) { return Line{Kind::Recv, Payload::Forward, 1, 0, 1, {}, microbatch}; };
  plan::Variant variant = byHand({{{Kind::Forward, Payload::None, 0, -1, 0, {}},
                                   {Kind::Forward, Payload::None, 0, -1, 0, {}, 1},
                                   send(0, 1),
                                   send(1, 2)},
                                  {recv(0),
                                   recv(1),
                                   {Kind::Forward, Payload::None, 1, -1, 0, {{1, false, 1, 0}}},
                                   {Kind::Forward, Payload::None, 1, -1, 0, {{1, false, 2, 0}}, 1}}},
                                 2, 10, 30, 5);
  std::vector<simulate::Event> recvs;
  simulate::Options options;
  options.observe = [&](const simulate::Event &event) {
    if (event.operation->kind == Kind::Recv)
      recvs.push_back(event);
  };
  simulate::Result result;
  ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
  ASSERT_EQ(recvs.size(), 2u);
  EXPECT_EQ(recvs[0].start, 10);
  EXPECT_EQ(recvs[0].end, 45);   // 10 + 30 + 5
  EXPECT_EQ(recvs[1].start, 40); // the wire is free at 40, though the producer ended at 20
  EXPECT_EQ(recvs[1].end, 75);
  EXPECT_EQ(result.makespan, 85);

  options.idealLinks = true;
  recvs.clear();
  ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
  EXPECT_EQ(recvs[1].start, 20);
  EXPECT_EQ(recvs[1].end, 55);
}

// NCCL #479: both ranks send before they receive, on one queue.
TEST(Simulate, SendBeforeReceiveOnBothSidesIsACycle) {
  auto rank = [](int32_t peer) {
    return std::vector<Line>{{Kind::Send, Payload::Forward, 1 - peer, peer, 1, {}},
                             {Kind::Recv, Payload::Backward, 1 - peer, peer, 1, {}}};
  };
  simulate::Result result;
  Status status = simulate::simulate(byHand({rank(1), rank(0)}, 2, 1, 1, 0), {}, result);
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_THAT(status.message, HasSubstr("cycle of 2"));
  EXPECT_THAT(status.message, HasSubstr("rank 0: send F stage 0 microbatch 0 to rank 1"));
  EXPECT_THAT(status.message, HasSubstr("rank 1: send F stage 1 microbatch 0 to rank 0"));
}

TEST(Simulate, AReceiveWithoutASendNeverComes) {
  plan::Variant variant = byHand({{{Kind::Recv, Payload::Backward, 0, 1, 1, {}}}, {}}, 2, 1, 1, 0);
  simulate::Result result;
  Status status = simulate::simulate(variant, {}, result);
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_THAT(status.message, HasSubstr("never comes"));
}

TEST(Simulate, AWaitForMoreThanAQueueRunsNeverComes) {
  plan::Variant variant = byHand({{{Kind::Forward, Payload::None, 0, -1, 0, {{1, false, 1, 0}}}}}, 2, 1, 1, 0);
  simulate::Result result;
  EXPECT_EQ(simulate::simulate(variant, {}, result).code, Code::Check);
}

// A wait on the step before is met in the first step and binds in the second.
TEST(Simulate, StepsFollowEachOtherWithoutABarrier) {
  plan::Variant variant = byHand(
      {{{Kind::Forward, Payload::None, 0, -1, 0, {}}, {Kind::Send, Payload::Forward, 0, 1, 1, {{0, false, 1, 0}}}},
       {{Kind::Recv, Payload::Forward, 1, 0, 1, {{0, true, 1, 0}}},
        {Kind::Forward, Payload::None, 1, -1, 0, {{1, false, 1, 0}}}}},
      2, 10, 0, 0);
  simulate::Options options;
  options.steps = 3;
  simulate::Result result;
  ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
  EXPECT_THAT(result.places[0].lastEnd, testing::ElementsAre(10, 20, 30));
  EXPECT_THAT(result.places[1].lastEnd, testing::ElementsAre(20, 30, 40));
  // The second step is like the first, so a third would be too.
  options.untilRepeats = true;
  ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
  EXPECT_THAT(result.places[0].lastEnd, testing::ElementsAre(10, 20));
  EXPECT_THAT(result.places[1].lastEnd, testing::ElementsAre(20, 30));
  Time span = 0;
  ASSERT_TRUE(simulate::span(variant, span, result).ok());
  EXPECT_EQ(span, 10);
}

// Compute head and weights share the device: a W fills the wait for what arrives at 25, and the one started at 20
// delays it.
TEST(Simulate, ALowerQueueFillsWaitsAndMayDelayTheNextHead) {
  auto weight = [](int32_t microbatch) {
    return Line{Kind::BackwardWeight, Payload::None, 0, -1, 2, {{0, false, 1, 0}}, microbatch};
  };
  plan::Variant variant = byHand(
      {{{Kind::Forward, Payload::None, 0, -1, 0, {}},
        weight(0),
        weight(1),
        weight(2),
        {Kind::Recv, Payload::Backward, 0, 1, 1, {}},
        {Kind::BackwardInput, Payload::None, 0, -1, 0, {{1, false, 1, 0}}}},
       {{Kind::Forward, Payload::None, 1, -1, 0, {}}, {Kind::Send, Payload::Backward, 1, 0, 1, {{0, false, 1, 0}}}}},
      3, 10, 10, 5);
  std::vector<std::pair<Time, Kind>> starts;
  simulate::Options options;
  options.observe = [&](const simulate::Event &event) {
    if (event.rank == 0 && event.operation->kind != Kind::Recv)
      starts.emplace_back(event.start, event.operation->kind);
  };
  simulate::Result result;
  ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
  using enum Kind;
  EXPECT_THAT(starts, testing::ElementsAre(std::pair(Time(0), Forward), std::pair(Time(10), BackwardWeight),
                                           std::pair(Time(20), BackwardWeight), std::pair(Time(30), BackwardInput),
                                           std::pair(Time(40), BackwardWeight)));
}

TEST(Simulate, DeferredWeightsRunOnceEachAndNeverOverlapCompute) {
  plan::Variant variant = oneFOneB({.ranks = 4, .microbatches = 9, .split = true, .deferred = true});
  std::vector<std::vector<std::pair<Time, Time>>> busy(4);
  simulate::Options options;
  options.steps = 2;
  options.observe = [&](const simulate::Event &event) {
    if (!plan::isTransfer(event.operation->kind))
      busy[size_t(event.rank)].emplace_back(event.start, event.end);
  };
  simulate::Result result;
  ASSERT_TRUE(simulate::simulate(variant, options, result).ok());
  for (auto &intervals : busy) {
    EXPECT_EQ(intervals.size(), 2 * (3 * 9 + 1));
    std::sort(intervals.begin(), intervals.end());
    for (size_t i = 1; i < intervals.size(); ++i)
      EXPECT_GE(intervals[i].first, intervals[i - 1].second);
  }
}

TEST(Simulate, AStepThatTakesTooLongIsRefused) {
  plan::Variant variant = oneFOneB({.ranks = 4, .microbatches = 9, .forward = 100'000'000'000'000'000});
  simulate::Result result;
  Status status = simulate::simulate(variant, {}, result);
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_THAT(status.message, HasSubstr("10^18 ps"));
  Time span = 0;
  EXPECT_EQ(simulate::span(variant, span, result).code, Code::Input);
  for (plan::Program &program : variant.programs)
    for (plan::Operation &operation : program.operations)
      operation.cost = limits::kTime; // longer than the walk counts
  EXPECT_EQ(simulate::span(variant, span, result).code, Code::Input);
}

// P37
TEST(Simulate, ACertificateThatTheWalkContradictsIsRefused) {
  plan::Variant variant = oneFOneB({});
  simulate::Result result;
  ASSERT_TRUE(simulate::simulate(variant, {}, result).ok());
  variant.certificate.makespan = result.makespan;
  EXPECT_TRUE(simulate::prove(variant, result).ok());
  variant.certificate.makespan -= 1;
  Status status = simulate::prove(variant, result);
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_THAT(status.message, HasSubstr("P37"));
}

TEST(Simulate, PeaksBeyondWhatACounterHoldsSaturate) {
  plan::Variant variant =
      oneFOneB({.ranks = 1, .microbatches = 1, .activation = limits::kBytes, .context = limits::kBytes});
  for (plan::Operation &operation : variant.programs[0].operations)
    operation.activation = operation.context =
        operation.kind == Kind::Forward ? std::numeric_limits<plan::Bytes>::max() : 0;
  simulate::Result result;
  ASSERT_TRUE(simulate::simulate(variant, {}, result).ok());
  EXPECT_EQ(result.places[0].peakActivation, std::numeric_limits<plan::Bytes>::max());
  EXPECT_EQ(result.places[0].peak, std::numeric_limits<plan::Bytes>::max());
}

TEST(Simulate, SpanOfOneFOneBIsItsMakespanAndBubbleRateCountsAllRanks) {
  plan::Variant variant = oneFOneB({.ranks = 4,
                                    .microbatches = 8,
                                    .slots = 8,
                                    .forward = 10,
                                    .backwardInput = 10,
                                    .backwardWeight = 10,
                                    .optimizerCost = 0,
                                    .transfer = 0,
                                    .latency = 0});
  Time span = 0;
  simulate::Result result;
  ASSERT_TRUE(simulate::span(variant, span, result).ok());
  EXPECT_EQ(span, result.makespan);
  EXPECT_EQ(result.makespan, (8 + 3) * 30);
  EXPECT_DOUBLE_EQ(simulate::bubbleRate(result, result.makespan), 1 - 8.0 / 11.0);
}
