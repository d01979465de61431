// The walk over the shards of ranks, held against times that are written out, and against an evaluator of its own: the
// definitions of Simulate.h, one function each, asked again and again.
#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Limits.h"
#include "runtime/simulate/InFlight.h"
#include "runtime/simulate/Recording.h"
#include "runtime/simulate/SteppedRun.h"
#include "test/plan/MakeShards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <random>

namespace pipec::simulate {
namespace {

using plan::Kind;
using plan::Time;
using plan::test::makeShards;
using plan::test::Sharded;

/// When one instruction of one process runs, by the definitions alone.
class Evaluator {
public:
  struct Times {
    Time start = 0, end = 0, free = 0, own = 0, waited = 0, came = 0, met = 0;
    bool operator==(const Times &) const = default;
  };

  Evaluator(const plan::Variant &variant, const Scenario *scenario) : variant(variant), scenario(scenario) {
    for (const plan::Program &program : variant.programs) {
      auto &queues = issued.emplace_back(program.queues.size());
      for (plan::Cursor cursor(program); !cursor.done(); cursor.next())
        queues[cursor.at().instruction->queue].push_back(cursor.at());
    }
  }

  /// Of the i-th of a queue in a step.
  const Times &at(int place, size_t queue, int64_t i, int64_t step) {
    const std::array<int64_t, 4> key{place, int64_t(queue), i, step};
    if (const auto found = known.find(key); found != known.end())
      return found->second;
    const Times times = evaluate(place, queue, i, step);
    return known[key] = times;
  }

private:
  int shards() const { return variant.shards(); }
  const plan::Step &stepOf(int place, size_t queue, int64_t i) const {
    return issued[size_t(place / shards())][queue][size_t(i)];
  }
  int64_t count(int place, size_t queue) const { return int64_t(issued[size_t(place / shards())][queue].size()); }

  /// When it is the head of its queue with its waits met.
  Time ready(int place, size_t queue, int64_t i, int64_t step) {
    Time when = 0;
    if (i > 0)
      when = at(place, queue, i - 1, step).free;
    else if (step > 0)
      when = at(place, queue, count(place, queue) - 1, step - 1).free;
    const plan::Program &program = variant.programOf(size_t(place));
    const plan::Step &own = stepOf(place, queue, i);
    for (uint32_t w = 0; w != own.instruction->waits; ++w) {
      const plan::Wait &wait = program.waits[own.instruction->firstWait + w];
      const int64_t in = step - (wait.previousStep ? 1 : 0);
      for (int64_t other = 0; in >= 0 && other < wait.base + wait.stride * own.trip; ++other)
        when = std::max(when, at(place, wait.queue, other, in).end);
    }
    return when;
  }
  /// What a process takes for its own time, begun at `start`.
  Time taken(int place, Time start, Time time) const {
    if (!scenario || !scenario->slow.contains(place / shards()))
      return time;
    for (const Scenario::Slow &slow : scenario->slow.at(place / shards()))
      if (slow.at <= start && start < slow.until && (slow.shard == -1 || slow.shard == place % shards())) {
        const long double by = slow.shard == -1 ? 1.0L : 1e6L / (long double)(variant.own[size_t(place)].factor);
        return Time((long double)(time) * (long double)(slow.percent) / 100.0L * by + 0.5L);
      }
    return time;
  }
  const plan::OwnCost &own(int place, const plan::Operation &operation) const {
    const plan::Program &program = variant.programOf(size_t(place));
    return variant.own[size_t(place)].operations[size_t(&operation - program.operations.data())];
  }
  Time came(int place, size_t queue, int64_t i, int64_t step) {
    const Time start = ready(place, queue, i, step);
    return start + taken(place, start, own(place, *stepOf(place, queue, i).operation).before);
  }

  Times evaluate(int place, size_t queue, int64_t i, int64_t step) {
    const plan::Operation &operation = *stepOf(place, queue, i).operation;
    Times times;
    times.start = ready(place, queue, i, step);
    if (plan::isTransfer(operation.kind)) {
      const auto [other, at, n] = peerOf(place, queue, i);
      times.start = std::max(times.start, ready(other, at, n, step));
      times.free = times.start + operation.cost;
      times.end = times.free + (operation.kind == Kind::Recv ? operation.latency : 0);
    } else if (plan::isCollective(operation.kind)) {
      for (int other = 0; other != int(variant.places()); ++other)
        for (size_t q = 0; q != issued[size_t(other / shards())].size(); ++q)
          for (int64_t n = 0; n != count(other, q); ++n)
            if (plan::isCollective(stepOf(other, q, n).operation->kind))
              times.start = std::max(times.start, ready(other, q, n, step));
      times.free = times.end = times.start + operation.cost;
    } else if (!plan::meets(operation)) {
      times.own = taken(place, times.start, own(place, operation).before);
      times.free = times.end = times.start + times.own;
    } else {
      return withSums(place, queue, i, step);
    }
    times.came = times.met = times.end;
    return times;
  }

  Times withSums(int place, size_t queue, int64_t i, int64_t step) {
    const plan::Operation &operation = *stepOf(place, queue, i).operation;
    const int first = place / shards() * shards();
    Times times;
    times.start = ready(place, queue, i, step);
    times.came = came(place, queue, i, step);
    for (int other = first; other != first + shards(); ++other)
      times.met = std::max(times.met, came(other, queue, i, step));
    Time planned = 0, longest = 0;
    for (int other = first; other != first + shards(); ++other) {
      planned = std::max(planned, own(other, operation).between);
      longest = std::max(longest, taken(other, times.met, own(other, operation).between));
    }
    const Time behind = times.met + operation.cost - planned + longest;
    const Time between = taken(place, times.met, own(place, operation).between);
    times.free = times.end = behind + taken(place, behind, own(place, operation).after);
    times.own = times.came - times.start + between + times.end - behind;
    times.waited = times.met - times.came + longest - between;
    return times;
  }

  /// The n-th transfer between two places is the n-th there.
  std::tuple<int, size_t, int64_t> peerOf(int place, size_t queue, int64_t i) const {
    const plan::Operation &operation = *stepOf(place, queue, i).operation;
    const bool sends = operation.kind == Kind::Send;
    int64_t n = 0;
    for (int64_t before = 0; before != i; ++before)
      n += stepOf(place, queue, before).operation->peer == operation.peer &&
           stepOf(place, queue, before).operation->kind == operation.kind;
    const int other = operation.peer * shards() + place % shards();
    for (size_t q = 0; q != issued[size_t(operation.peer)].size(); ++q)
      for (int64_t at = 0; at != count(other, q); ++at) {
        const plan::Operation &theirs = *stepOf(other, q, at).operation;
        if (theirs.kind == (sends ? Kind::Recv : Kind::Send) && theirs.peer == place / shards() && n-- == 0)
          return {other, q, at};
      }
    throw std::logic_error("no such transfer");
  }

  const plan::Variant &variant;
  const Scenario *scenario;
  std::vector<std::vector<std::vector<plan::Step>>> issued; // by rank and queue
  std::map<std::array<int64_t, 4>, Times> known;
};

class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  int below(int n) { return int(engine() % uint64_t(n)); }

  plan::Plan plan() {
    Sharded how;
    how.make.ranks = 1 + below(3);
    how.make.stagesPerRank = 1 + below(2);
    how.make.microbatches = 1 + below(5);
    how.make.slots = uint32_t(1 + below(std::min(2, how.make.microbatches)));
    how.make.backward = below(6) != 0;
    how.make.split = below(2) == 0;
    how.make.recompute = how.make.backward && below(3) == 0;
    how.make.norm = how.make.backward && below(3) == 0;
    how.make.latency = below(5);
    how.make.transfer = below(9);
    how.make.normCost = below(9);
    how.shards = 2 + below(3);
    how.exchange = below(2) == 0;
    plan::Plan made = makeShards(how);
    plan::Variant &variant = made.variants.front();
    for (plan::Program &program : variant.programs)
      for (size_t i = 0; i != program.operations.size(); ++i) {
        plan::Operation &operation = program.operations[i];
        if (plan::isCommunication(operation.kind))
          continue;
        Time longest = 0;
        for (int shard = 0; shard != how.shards; ++shard) {
          plan::OwnCost &own = variant.own[size_t(program.rank * how.shards + shard)].operations[i];
          const bool meets = plan::meets(operation);
          own = {below(20), meets ? below(20) : 0, meets ? below(20) : 0, own.activation, own.context};
          longest = std::max(longest, own.between);
        }
        operation.cost = plan::meets(operation) ? longest + below(10) : 0;
      }
    for (plan::Own &own : variant.own)
      own.factor = plan::Own::kWhole * (1 + below(8)) / (1 + below(2));
    return made;
  }

  Scenario scenario(const plan::Variant &variant) {
    Scenario made;
    for (int n = below(4); n-- != 0;) {
      Scenario::Slow slow{below(100), below(3) == 0 ? 100 + below(100) : kNever, 25 * (1 + below(40))};
      slow.shard = below(4) == 0 ? -1 : below(variant.shards());
      made.slow[below(int(variant.programs.size()))].push_back(slow);
    }
    return made;
  }

private:
  std::mt19937_64 engine;
};

TEST(Shards, TheWalkIsWhatTheDefinitionsSay) {
  Random random(1);
  int events = 0, waited = 0, slower = 0;
  for (int round = 0; round != 1000; ++round) {
    const plan::Plan plan = random.plan();
    const plan::Variant &variant = plan.variants.front();
    const Scenario scenario = random.scenario(variant);
    Evaluator evaluator(variant, &scenario);
    Options options;
    options.steps = 2;
    options.scenario = &scenario;
    std::map<std::array<int64_t, 3>, int64_t> done;
    std::vector<Time> busy(variant.places());
    options.observe = [&](const Event &event) {
      EXPECT_EQ(event.place, event.rank * variant.shards() + event.shard);
      const int64_t i = done[{event.place, event.queue, event.step}]++;
      const Evaluator::Times times{event.start, event.end, event.free, event.own, event.waited, event.came, event.met};
      EXPECT_EQ(times, evaluator.at(event.place, event.queue, i, event.step)) << "round " << round;
      ++events;
      waited += event.waited > 0;
      if (event.step == 0)
        busy[size_t(event.place)] += event.own;
    };
    Result result;
    const Status status = simulate(variant, options, result);
    ASSERT_TRUE(status.ok()) << status.message;
    ASSERT_FALSE(HasFailure()) << "round " << round;
    for (size_t place = 0; place != busy.size(); ++place)
      EXPECT_EQ(result.places[place].busy, busy[place]);
    slower += !scenario.slow.empty();
  }
  EXPECT_GT(waited, events / 20);
  EXPECT_GT(slower, 500);
}

TEST(Shards, OfWhichAllAreAlikeTakeWhatOneProcessTakes) {
  Sharded how;
  how.sum = 0;
  how.make.norm = true;
  for (const int32_t shards : {2, 5}) {
    how.shards = shards;
    const plan::Plan one = makePlan(how.make), several = makeShards(how);
    Result expected, result;
    ASSERT_TRUE(simulate(one.variants.front(), {.steps = 3, .observe = {}}, expected).ok());
    ASSERT_TRUE(simulate(several.variants.front(), {.steps = 3, .observe = {}}, result).ok());
    EXPECT_EQ(result.makespan, expected.makespan);
    ASSERT_EQ(result.places.size(), size_t(how.make.ranks * shards));
    for (size_t place = 0; place != result.places.size(); ++place) {
      const PlaceResult &own = result.places[place], &rank = expected.places[place / size_t(shards)];
      EXPECT_EQ(own.lastEnd, rank.lastEnd);
      EXPECT_EQ(own.busy, rank.busy);
      EXPECT_EQ(own.peak, rank.peak);
      EXPECT_EQ(own.peakIndex, rank.peakIndex);
    }
    Time span = 0, whole = 0;
    ASSERT_TRUE(simulate::span(one.variants.front(), whole, expected).ok());
    ASSERT_TRUE(simulate::span(several.variants.front(), span, result).ok());
    EXPECT_EQ(span, whole);
    EXPECT_DOUBLE_EQ(bubbleRate(result, span), bubbleRate(expected, whole));
  }
}

/// One rank of two shards, one microbatch; F and BW as given, of both shards.
plan::Plan pairOf(const plan::OwnCost &one, const plan::OwnCost &other, Time cost) {
  Sharded how;
  how.make.ranks = how.make.microbatches = 1;
  how.make.slots = 1;
  how.make.optimizer = false;
  plan::Plan plan = makeShards(how);
  plan::Variant &variant = plan.variants.front();
  for (plan::Operation &operation : variant.programs[0].operations)
    operation.cost = cost;
  for (plan::OwnCost &own : variant.own[0].operations)
    own = one;
  for (plan::OwnCost &own : variant.own[1].operations)
    own = other;
  return plan;
}

TEST(Shards, ASumWaitsForTheLastOne) {
  const plan::Plan plan = pairOf({3, 2, 1, 0, 0}, {8, 5, 2, 0, 0}, 7);
  const plan::Variant &variant = plan.variants.front();
  Recording recording;
  ASSERT_TRUE(recording.run(variant, {}).ok());
  // F: both at 8, sums and what is between them until 15, then 1 and 2. BW of shard 0 from 16 to 19, of 1 from 17
  // to 25.
  const auto &first = recording.queue(0, 0, 0), &second = recording.queue(1, 0, 0);
  EXPECT_EQ(first[0].came, 3);
  EXPECT_EQ(first[0].met, 8);
  EXPECT_EQ(first[0].end, 16);
  EXPECT_EQ(second[0].end, 17);
  EXPECT_EQ(first[1].came, 19);
  EXPECT_EQ(first[1].met, 25);
  EXPECT_EQ(first[1].end, 33);
  EXPECT_EQ(second[1].end, 34);
  EXPECT_EQ(recording.result.places[0].busy, 12);
  EXPECT_EQ(recording.result.places[1].busy, 30);
  EXPECT_EQ(recording.result.makespan, 34);
  const std::optional<Cause> held = recording.heldBy({0, 0, 0, 1});
  ASSERT_TRUE(held);
  EXPECT_EQ(held->why, Why::Sum);
  EXPECT_EQ(held->by, (Occurrence{1, 0, 0, 1}));
  EXPECT_FALSE(recording.heldBy({1, 0, 0, 1}));
  const Occurrence f0{0, 0, 0, 0}, b0{0, 0, 0, 1}, f1{1, 0, 0, 0}, b1{1, 0, 0, 1};
  EXPECT_THAT(recording.criticalPath(0), testing::ElementsAre(f1, b1));
  EXPECT_THAT(recording.chain(b0), testing::ElementsAre(f1, b1, b0));
  EXPECT_THAT(recording.chain(f0), testing::ElementsAre(f1, f0));
}

TEST(Shards, AScenarioSlowsOneOfThemInPlaceOfThePlansFactor) {
  plan::Plan plan = pairOf({4, 2, 2, 0, 0}, {4, 2, 2, 0, 0}, 3);
  plan::Variant &variant = plan.variants.front();
  variant.own[1].factor = 2 * plan::Own::kWhole;
  const auto makespan = [&](std::vector<Scenario::Slow> slow) {
    Scenario scenario;
    scenario.slow[0] = std::move(slow);
    Options options;
    options.scenario = &scenario;
    Result result;
    EXPECT_TRUE(simulate(variant, options, result).ok());
    return result.makespan;
  };
  EXPECT_EQ(makespan({}), 18);                                    // twice 4, 3 (a sum of 1 and 2 between two), 2
  EXPECT_EQ(makespan({{0, kNever, 200, 1}}), 18);                 // what the plan says
  EXPECT_EQ(makespan({{0, kNever, 400, 1}}), 34);                 // twice 8, 1 and 4, 4
  EXPECT_EQ(makespan({{0, kNever, 200, 0}}), 34);                 // of shard 0 the plan's factor is 1
  EXPECT_EQ(makespan({{0, kNever, 300, -1}}), 50);                // both: three times as long, but sums
  EXPECT_EQ(makespan({{0, kNever, 100, 1}}), 18);                 // shard 0 still takes its time
  EXPECT_EQ(makespan({{0, 1, 400, 1}, {0, kNever, 200, 1}}), 22); // the first 4 alone; then as planned
}

TEST(Shards, ARunThatSwapsWaitsForAllShardsOfTheRank) {
  const plan::Plan plan = pairOf({3, 2, 1, 0, 0}, {8, 5, 2, 0, 0}, 7);
  const plan::Variant one = plan.variants.front(), other = one;
  SteppedRun run({});
  ASSERT_TRUE(run.step(one).ok());
  EXPECT_THAT(run.ends(), testing::ElementsAre(33, 34));
  EXPECT_THAT(run.fence(), testing::ElementsAre(34, 34));
  ASSERT_TRUE(run.step(other).ok());
  EXPECT_THAT(run.ends(), testing::ElementsAre(67, 68));
  EXPECT_EQ(run.stepTime(), 34);
}

TEST(Shards, ThatStopAreNamed) {
  plan::Plan plan = makeShards({.make = {.ranks = 2, .microbatches = 2}});
  plan::Program &program = plan.variants.front().programs[0];
  for (uint32_t q = 0; q != program.queues.size(); ++q)
    if (plan::queueName(program, q) == "recv from 1")
      program.waits.front() = {q, false, 1, 0}; // the first F waits for what its own activation lets come
  Result result;
  const Status status = simulate(plan.variants.front(), {}, result);
  EXPECT_EQ(status.code, Code::Check);
  EXPECT_NE(status.message.find("\n  rank 0 shard 0: F stage 0 microbatch 0"), std::string::npos) << status.message;
}

// What must be free for any timing is the same with shards: as they all run one program, none knows more than one.
TEST(Shards, TransfersInFlightAreThoseOfOneProcess) {
  const Sharded how{.make = {.ranks = 3, .microbatches = 5}, .shards = 3};
  std::vector<std::vector<Flight>> one, several;
  ASSERT_TRUE(inFlight(makePlan(how.make).variants.front(), one).ok());
  ASSERT_TRUE(inFlight(makeShards(how).variants.front(), several).ok());
  ASSERT_EQ(one.size(), several.size());
  for (size_t rank = 0; rank != one.size(); ++rank) {
    ASSERT_EQ(one[rank].size(), several[rank].size());
    for (size_t i = 0; i != one[rank].size(); ++i) {
      EXPECT_EQ(one[rank][i].over, several[rank][i].over);
      EXPECT_EQ(one[rank][i].overBefore, several[rank][i].overBefore);
    }
  }
}

TEST(Shards, TimesUpToTheLimitStayInRange) {
  plan::Plan plan = pairOf({limits::kTime / 4, limits::kTime / 4, limits::kTime / 4, 0, 0},
                           {limits::kTime / 4, limits::kTime / 4, limits::kTime / 4, 0, 0}, limits::kTime / 4);
  Scenario scenario;
  scenario.slow[0] = {{0, kNever, 100'000, 1}};
  Options options;
  options.scenario = &scenario;
  Result result;
  EXPECT_FALSE(simulate(plan.variants.front(), options, result).ok());
}

} // namespace
} // namespace pipec::simulate
