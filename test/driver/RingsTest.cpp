// How many slots a ring needs so that it delays nothing in any timing (runtime/simulate/InFlight.h), and what the
// compiler makes of it, held against runs in which everything takes whatever it takes.
#include "compiler/explain/Rewait.h"
#include "runtime/plan/HandOvers.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Unroll.h"
#include "runtime/simulate/InFlight.h"
#include "runtime/simulate/Simulate.h"
#include "test/driver/Agreement.h"

#include <map>

using namespace pipec;
using namespace pipec::test;
using plan::Direction;
using plan::Kind;
using plan::Time;
using simulate::Flight;

namespace {

/// The variant, each instruction with an operation of its own, and with rings that hold a whole step.
plan::Variant apart(const plan::Variant &variant) {
  plan::Variant made = variant;
  made.memoryLimit = 0;
  for (plan::Program &program : made.programs) {
    program = plan::unrolled(program);
    std::map<std::pair<int32_t, Direction>, uint32_t> transfers;
    for (const plan::Instruction &each : program.instructions)
      if (const plan::Operation &own = program.operations[each.operation]; plan::isTransfer(own.kind))
        ++transfers[{own.peer, own.kind == Kind::Send ? Direction::Send : Direction::Recv}];
    for (plan::Ring &ring : program.rings)
      ring.size = transfers.at({ring.peer, ring.direction});
    emit::rewait(program);
    std::vector<plan::Operation> operations;
    for (plan::Instruction &each : program.instructions) {
      operations.push_back(program.operations[each.operation]);
      each.operation = uint32_t(operations.size() - 1);
    }
    program.operations = std::move(operations);
  }
  return made;
}

/// Sets what every instruction takes, of a rank and its instruction: `cost` of a transfer is asked of its send,
/// `latency` of its receive.
template <typename Cost, typename Latency> void take(plan::Variant &variant, Cost cost, Latency latency) {
  std::map<std::pair<int32_t, int32_t>, std::array<std::vector<plan::Operation *>, 2>> transfers; // by ranks
  for (plan::Program &program : variant.programs)
    for (uint32_t i = 0; i != program.operations.size(); ++i) {
      plan::Operation &own = program.operations[i];
      if (own.kind == Kind::Recv)
        own.latency = latency(program.rank, i);
      else
        own.cost = cost(program.rank, i);
      if (own.kind == Kind::Send)
        transfers[{program.rank, own.peer}][0].push_back(&own);
      else if (own.kind == Kind::Recv)
        transfers[{own.peer, program.rank}][1].push_back(&own);
    }
  for (auto &[ranks, ends] : transfers)
    for (size_t n = 0; n != ends[0].size(); ++n) {
      ends[0][n]->latency = ends[1][n]->latency;
      ends[1][n]->cost = ends[0][n]->cost;
    }
}

/// By step and instruction: when each starts, and when its queue counts it.
struct Moment {
  Time start = 0, counted = 0;
};
using Moments = std::vector<std::vector<std::vector<Moment>>>; // rank, step, instruction
Moments run(const plan::Variant &variant, int64_t steps) {
  Moments moments;
  for (const plan::Program &program : variant.programs)
    moments.emplace_back(size_t(steps), std::vector<Moment>(program.instructions.size()));
  simulate::Options options;
  options.steps = steps;
  options.observe = [&](const simulate::Event &event) {
    moments[size_t(event.rank)][size_t(event.step)][size_t(event.index)] = {event.start, event.counted};
  };
  simulate::Result result;
  const Status status = simulate::simulate(variant, options, result);
  EXPECT_TRUE(status.ok()) << status.message;
  return moments;
}

/// What takes and what frees the slot of each transfer of a ring.
struct Slots {
  std::vector<uint32_t> takers, freers;
};
Slots slotsOf(const plan::Program &program, const Flight &flight) {
  const plan::HandOvers handed(program);
  Slots slots;
  const Kind kind = flight.direction == Direction::Send ? Kind::Send : Kind::Recv;
  for (uint32_t i = 0; i != program.instructions.size(); ++i)
    if (const plan::Operation &own = program.operations[i]; own.kind == kind && own.peer == flight.peer) {
      slots.takers.push_back(kind == Kind::Send ? handed.from[i] : i);
      slots.freers.push_back(kind == Kind::Send ? i : handed.to[i]);
    }
  EXPECT_EQ(slots.takers.size(), flight.transfers);
  return slots;
}

RandomPipeline next(Tight &tight, int round) {
  RandomPipeline each = tight.next();
  each.communicator = std::array{"per_edge", "per_pair", "launch_order", "shared"}[size_t(round % 4)];
  return each;
}

using Flights = std::vector<std::vector<Flight>>;

/// In random timings nothing ever waits for a slot of a ring of such a size, and what is said to be over is.
TEST_F(Agreement, noTimingWaitsForRingsOfTheirFreeSize) {
  Tight tight(21);
  int within = 0;
  for (int round = 0, last = rounds(300); round != last && !HasFailure(); ++round) {
    const RandomPipeline each = next(tight, round);
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    const Made made = make(each);
    if (!made.errors.empty()) // this communicator does not end
      continue;
    Flights flights;
    ASSERT_TRUE(simulate::inFlight(made.lowered->variant, flights).ok());
    plan::Variant variant = apart(made.lowered->variant);
    for (int timing = 0; timing != 4; ++timing) {
      // Mostly nothing, sometimes very much: what can overtake does.
      const auto some = [&](auto...) {
        return tight.random.chance(3) ? Time(1) << tight.random.below(30) : tight.random.below(3);
      };
      take(variant, some, some);
      constexpr int64_t kSteps = 3;
      const Moments moments = run(variant, kSteps);
      for (size_t rank = 0; rank != flights.size(); ++rank)
        for (const Flight &flight : flights[rank]) {
          const Slots slots = slotsOf(variant.programs[rank], flight);
          const auto startOf = [&](int64_t step, uint32_t n) {
            return moments[rank][size_t(step)][slots.takers[n]].start;
          };
          const auto overOf = [&](int64_t step, uint32_t n) {
            return moments[rank][size_t(step)][slots.freers[n]].counted;
          };
          for (int64_t step = 0; step != kSteps; ++step)
            for (uint32_t n = 0; n != flight.transfers; ++n) {
              for (uint32_t m = 0; m != flight.over[n]; ++m)
                EXPECT_LE(overOf(step, m), startOf(step, n));
              for (uint32_t m = 0; step != 0 && m != flight.overBefore[n]; ++m)
                EXPECT_LE(overOf(step - 1, m), startOf(step, n));
            }
          const std::optional<uint32_t> size = flight.freeSize();
          EXPECT_TRUE(!flight.isDrained() || size);
          within += size && *size < flight.transfers;
          for (int64_t step = 0; size && step != kSteps; ++step)
            for (uint32_t n = 0; n != flight.transfers; ++n) {
              if (n >= *size) {
                EXPECT_LE(overOf(step, n - *size), startOf(step, n));
              } else if (step != 0) {
                EXPECT_LE(overOf(step - 1, n + (flight.transfers - 1 - n) / *size * *size), startOf(step, n));
              }
            }
        }
    }
  }
  EXPECT_GT(within, seen(500));
}

/// With a slot less there is a timing in which something waits: one thing takes long, all else no time.
TEST_F(Agreement, someTimingWaitsForSmallerRings) {
  Tight tight(22);
  int judged = 0;
  for (int round = 0, last = rounds(60); round != last && !HasFailure(); ++round) {
    const RandomPipeline each = next(tight, round);
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    const Made made = make(each);
    if (!made.errors.empty())
      continue;
    Flights flights;
    ASSERT_TRUE(simulate::inFlight(made.lowered->variant, flights).ok());
    plan::Variant variant = apart(made.lowered->variant);
    variant.launchOrder = false; // rings are for any order of starts
    for (size_t rank = 0; rank != flights.size(); ++rank)
      for (const Flight &flight : flights[rank]) {
        if (flight.inStep == 1)
          continue;
        const Slots slots = slotsOf(variant.programs[rank], flight);
        const plan::Program &program = variant.programs[rank];
        uint32_t n = 0;
        while (n + 1 - flight.over[n] != flight.inStep)
          ++n;
        const uint32_t freer = slots.freers[flight.over[n]]; // may not be over when n takes its slot
        bool waits = false;
        // What counts it counts all before it too.
        for (uint32_t late = freer; !waits; --late) {
          if (program.instructions[late].queue == program.instructions[freer].queue) {
            const bool receives = program.operations[late].kind == Kind::Recv;
            const uint32_t header = late >= 1 && program.operations[late - 1].kind == Kind::Overlapped   ? late - 1
                                    : late >= 2 && program.operations[late - 2].kind == Kind::Overlapped ? late - 2
                                                                                                         : late;
            const auto longOne = [&](uint32_t which) {
              return
                  [&, which](int32_t r, uint32_t i) { return size_t(r) == rank && i == which ? Time(1000) : Time(0); };
            };
            take(variant, longOne(receives ? ~uint32_t(0) : header), longOne(receives ? late : ~uint32_t(0)));
            const Moments moments = run(variant, 1);
            waits = moments[rank][0][slots.takers[n]].start < moments[rank][0][freer].counted;
          }
          if (late == 0)
            break;
        }
        EXPECT_TRUE(waits) << "rank " << rank << ", ring with " << flight.peer << ", " << flight.inStep;
        ++judged;
      }
  }
  EXPECT_GT(judged, seen(60));
}

/// `rings = any`: without a limit a plan like the other in all but the sizes of its rings, which bind in no timing
/// where that can be; with a limit within it, with no smaller rings; and in any network as fast as with all slots.
TEST_F(Agreement, compilesRingsForAnyTiming) {
  Tight tight(23);
  int wider = 0, faster = 0, between = 0;
  for (int round = 0, last = rounds(150); round != last && !HasFailure(); ++round) {
    RandomPipeline each = next(tight, round);
    Made predicted = make(each);
    if (!predicted.errors.empty())
      continue;
    each.anyRings = true;
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made any = make(each);
    ASSERT_EQ(any.errors, "");
    const plan::Variant variant = any.lowered->variant;
    if (!each.fillWeights) { // W fill what the compiler expects to be idle
      judge(each, any);
      // A send behind a receive on one queue is counted late, which predicted rings do not foresee.
      const bool foreseen = each.communicator == "per_edge";
      EXPECT_LE(any.lowered->result.makespan, predicted.lowered->result.makespan);
      EXPECT_LE(any.lowered->span, predicted.lowered->span);
      EXPECT_TRUE(!foreseen || any.lowered->result.makespan == predicted.lowered->result.makespan);
      EXPECT_TRUE(!foreseen || any.lowered->span == predicted.lowered->span);
    }
    judgeFile(each, any);
    Flights flights;
    ASSERT_TRUE(simulate::inFlight(variant, flights).ok());
    for (size_t rank = 0; rank != flights.size(); ++rank) {
      const plan::Program &program = variant.programs[rank];
      for (size_t r = 0; r != program.rings.size(); ++r) {
        const plan::Ring &ring = program.rings[r];
        const auto flight = std::find_if(flights[rank].begin(), flights[rank].end(), [&](const Flight &its) {
          return its.peer == ring.peer && its.direction == ring.direction;
        });
        ASSERT_NE(flight, flights[rank].end());
        EXPECT_TRUE(flight->freeSize() ? flight->bindsNever(ring.size) : ring.size == flight->transfers);
        EXPECT_GE(ring.size, predicted.lowered->variant.programs[rank].rings[r].size);
        wider += ring.size > predicted.lowered->variant.programs[rank].rings[r].size;
      }
    }
    if (!each.fillWeights && !each.problem.globalNorm) {
      simulate::Scenario network;
      for (int32_t from = 0; from != each.problem.ranks; ++from)
        for (int32_t to = 0; to != each.problem.ranks; ++to)
          if (tight.random.chance(2))
            network.links[{from, to}] = {{0, 0, Time(1) << tight.random.below(22)}};
      const auto timeOf = [&](const plan::Variant &which) {
        simulate::Options options;
        options.steps = 3;
        options.scenario = &network;
        simulate::Result result;
        EXPECT_TRUE(simulate::simulate(which, options, result).ok());
        Time over = 0;
        for (const simulate::PlaceResult &rank : result.places)
          over = std::max(over, rank.over);
        return over;
      };
      plan::Variant all = variant;
      for (plan::Program &program : all.programs) {
        program = plan::unrolled(program);
        for (plan::Ring &ring : program.rings)
          for (const Flight &flight : flights[size_t(program.rank)])
            if (flight.peer == ring.peer && flight.direction == ring.direction)
              ring.size = flight.transfers;
        emit::rewait(program);
      }
      EXPECT_EQ(timeOf(variant), timeOf(all));
      const bool sameOrder = [&] {
        for (size_t r = 0; r != flights.size(); ++r)
          if (any.words[r] != predicted.words[r])
            return false;
        return each.communicator == "per_edge";
      }();
      if (sameOrder) {
        EXPECT_LE(timeOf(variant), timeOf(predicted.lowered->variant));
        faster += timeOf(variant) < timeOf(predicted.lowered->variant);
      }
    }
    each.problem.memoryLimit = tight.limit(variant, any.lowered->result);
    each.anyRings = false;
    Made tightPredicted = make(each);
    each.anyRings = true;
    Made tightAny = make(each);
    EXPECT_EQ(tightAny.errors, tightPredicted.errors);
    if (!tightAny.errors.empty())
      continue;
    const plan::Variant limited = tightAny.lowered->variant;
    judgeFile(each, tightAny);
    for (size_t rank = 0; rank != flights.size(); ++rank) {
      EXPECT_LE(tightAny.lowered->result.places[rank].peak, each.problem.memoryLimit);
      const plan::Program &own = limited.programs[rank];
      for (size_t r = 0; r != own.rings.size(); ++r) {
        EXPECT_GE(own.rings[r].size, tightPredicted.lowered->variant.programs[rank].rings[r].size);
        between += own.rings[r].size > tightPredicted.lowered->variant.programs[rank].rings[r].size &&
                   own.rings[r].size < variant.programs[rank].rings[r].size;
      }
    }
  }
  EXPECT_GT(wider, seen(300));
  EXPECT_GT(faster, seen(4));
  EXPECT_GT(between, seen(10));
}

} // namespace
