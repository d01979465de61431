// What explain says that raising a limit gains, and rings raised in finished plans, over random pipelines.
#include "compiler/explain/BindingLimits.h"
#include "compiler/explain/Explain.h"
#include "compiler/explain/Rewait.h"
#include "runtime/plan/Load.h"
#include "runtime/plan/Unroll.h"
#include "runtime/simulate/Simulate.h"
#include "test/driver/Agreement.h"

#include <map>

using namespace pipec;
using namespace pipec::test;

namespace {

/// When each instruction starts and ends in the first step, by rank and queue.
using Timing = std::vector<std::vector<std::vector<std::pair<plan::Time, plan::Time>>>>;
Timing timing(const plan::Variant &variant, const simulate::Scenario *network, simulate::Result &result) {
  Timing times(variant.programs.size());
  for (size_t rank = 0; rank != times.size(); ++rank)
    times[rank].resize(variant.programs[rank].queues.size());
  simulate::Options options;
  options.scenario = network;
  options.observe = [&](const simulate::Event &event) {
    times[size_t(event.rank)][event.queue].emplace_back(event.start, event.end);
  };
  EXPECT_TRUE(simulate::simulate(variant, options, result).ok());
  return times;
}

/// What a program executes, in issue order, whatever its transfers take.
std::vector<std::pair<plan::Operation, int64_t>> issued(const plan::Program &program) {
  std::vector<std::pair<plan::Operation, int64_t>> all;
  for (plan::Cursor cursor(program); !cursor.done(); cursor.next()) {
    plan::Operation operation = *cursor.at().operation;
    if (plan::isTransfer(operation.kind))
      operation.cost = operation.latency = 0;
    all.emplace_back(operation, cursor.at().microbatch());
  }
  return all;
}

/// Of 1,000 random idle intervals in random plans: whatever limit their chains meet, raising it by as much as is said
/// gains what is said. A link's is asked of the simulator by way of a scenario, which leaves the plan as it is, and of
/// the whole compiler, where it makes rings of the same sizes.
TEST_F(Agreement, limitsGainWhatIsSaid) {
  Tight tight(5);
  int intervals = 0, recompiled = 0;
  std::map<emit::Limit::Kind, int> met, gaining;
  for (int round = 0; intervals < rounds(1000) && !HasFailure(); ++round) {
    RandomPipeline each = tight.next();
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made made = make(each);
    ASSERT_EQ(made.errors, "");
    if (tight.random.chance(2)) {
      each.problem.memoryLimit = tight.limit(made.lowered->variant, made.lowered->result);
      made = make(each);
      if (!made.errors.empty()) // one slot will not do
        continue;
    }
    const plan::Variant &variant = made.lowered->variant;
    simulate::Result own;
    const Timing times = timing(variant, nullptr, own);
    std::vector<std::tuple<int32_t, plan::Time, size_t>> idle; // rank, when it ends, what starts then
    for (size_t rank = 0; rank != times.size(); ++rank)
      for (size_t i = 1; i < times[rank][0].size(); ++i)
        if (times[rank][0][i].first > times[rank][0][i - 1].second)
          idle.emplace_back(int32_t(rank), times[rank][0][i].first, i);
    for (size_t rank = 0; rank != times.size(); ++rank) // the warm-up
      if (times[rank][0].front().first > 0)
        idle.emplace_back(int32_t(rank), times[rank][0].front().first, 0);
    for (int pick = 0; pick != 8 && !idle.empty(); ++pick) {
      const auto [rank, end, index] = idle[size_t(tight.random.below(int64_t(idle.size())))];
      emit::Explanation explanation;
      ASSERT_EQ(emit::explain(variant, rank, end - 1, explanation).message, "");
      if (explanation.busy || explanation.to != end || times[size_t(rank)][0][index].second == end)
        continue; // W ran meanwhile, or what starts takes no time
      ++intervals;
      EXPECT_EQ(explanation.chain.back().start, 0);
      for (size_t link = 1; link != explanation.chain.size(); ++link)
        EXPECT_EQ(explanation.chain[link].end, explanation.chain[link - 1].start) << explanation.chain[link].what;
      // What waits for a limit has it named.
      const bool limited = std::any_of(explanation.chain.begin(), explanation.chain.end(), [](const auto &link) {
        return link.why == simulate::Why::Buffer || link.why == simulate::Why::Memory;
      });
      EXPECT_TRUE(!limited || !explanation.gains.empty());
      for (const emit::Gain &gain : explanation.gains) {
        const emit::Limit &limit = gain.limit;
        SCOPED_TRACE(emit::describe(limit));
        ++met[limit.kind];
        gaining[limit.kind] += gain.start < end || gain.makespan < own.makespan;
        simulate::Result after;
        if (limit.kind == emit::Limit::Kind::Bandwidth || limit.kind == emit::Limit::Kind::Latency) {
          schedule::Link link = each.problem.linkBetween(limit.rank, limit.peer);
          const bool wide = limit.kind == emit::Limit::Kind::Bandwidth;
          if (!wide) {
            EXPECT_EQ(limit.now, link.latency);
          }
          (wide ? link.bandwidth : link.latency) = limit.raised;
          simulate::Scenario network;
          network.links[{limit.rank, limit.peer}] = {{0, link.bandwidth, link.latency}};
          const Timing then = timing(variant, &network, after);
          EXPECT_EQ(then[size_t(rank)][0][index].first, gain.start);
          EXPECT_EQ(after.makespan, gain.makespan);
          if (intervals % 4 != 0)
            continue;
          RandomPipeline changed = each;
          changed.problem.links[{limit.rank, limit.peer}] = link;
          Made again = make(changed);
          bool same = again.errors.empty();
          for (size_t r = 0; same && r != variant.programs.size(); ++r)
            same = again.lowered->variant.programs[r].rings == variant.programs[r].rings &&
                   issued(again.lowered->variant.programs[r]) == issued(variant.programs[r]);
          if (same) {
            ++recompiled;
            EXPECT_EQ(again.lowered->result.makespan, gain.makespan);
          }
          continue;
        }
        // Buffers and contexts: a plan that keeps every rule, whose rank holds so much more and not less, and that
        // runs as said.
        const plan::Variant raised = emit::raised(variant, limit);
        EXPECT_EQ(plan::verify(raised).message, "");
        const Timing then = timing(raised, nullptr, after);
        EXPECT_EQ(then[size_t(rank)][0][index].first, gain.start);
        EXPECT_EQ(after.makespan, gain.makespan);
        EXPECT_EQ(after.places[size_t(limit.rank)].peak - own.places[size_t(limit.rank)].peak, limit.memory);
        std::vector<int64_t> held = heldPeaks(raised);
        for (size_t r = 0; r != held.size(); ++r)
          EXPECT_LE(held[r], after.places[r].peakActivation);
        if (limit.raised - limit.now > 1) { // half as many gain nothing
          emit::Limit half = limit;
          half.raised = limit.now + (limit.raised - limit.now) / 2;
          const Timing less = timing(emit::raised(variant, half), nullptr, after);
          EXPECT_GE(less[size_t(rank)][0][index].first, end);
          EXPECT_GE(after.makespan, own.makespan);
        }
      }
    }
  }
  EXPECT_GT(recompiled, seen(100));
  for (auto kind : {emit::Limit::Kind::Bandwidth, emit::Limit::Kind::Latency, emit::Limit::Kind::Buffers,
                    emit::Limit::Kind::Contexts}) {
    EXPECT_GT(met[kind], seen(15)) << emit::name(kind);
    EXPECT_GT(gaining[kind], seen(10)) << emit::name(kind);
  }
}

/// Rings raised in a finished plan are those that the compiler makes: raised one after the other to the sizes that it
/// gives without a limit, they run as its plan does; raised by nothing, as they did.
TEST_F(Agreement, raisedRingsAreTheCompilers) {
  Tight tight(6);
  int raisedRings = 0, compared = 0;
  for (int round = 0, last = rounds(150); round != last && !HasFailure(); ++round) {
    RandomPipeline each = tight.next();
    SCOPED_TRACE("round " + std::to_string(round) + "\n" + each.text());
    Made free = make(each);
    ASSERT_EQ(free.errors, "");
    each.problem.memoryLimit = tight.limit(free.lowered->variant, free.lowered->result);
    Made limited = make(each);
    if (!limited.errors.empty())
      continue;
    plan::Variant variant = limited.lowered->variant;
    simulate::Result before, after;
    const Timing own = timing(variant, nullptr, before);
    for (plan::Program &program : variant.programs) {
      program = plan::unrolled(program);
      emit::rewait(program);
    }
    EXPECT_EQ(timing(variant, nullptr, after), own);
    for (size_t rank = 0; rank != variant.programs.size(); ++rank)
      for (size_t ring = 0; ring != variant.programs[rank].rings.size(); ++ring) {
        const plan::Ring &now = variant.programs[rank].rings[ring],
                         &goal = free.lowered->variant.programs[rank].rings[ring];
        raisedRings += now.size != goal.size;
        ASSERT_EQ(std::pair(now.peer, now.direction), std::pair(goal.peer, goal.direction));
        variant = emit::raised(
            variant, {emit::Limit::Kind::Buffers, int32_t(rank), now.peer, now.direction, now.size, goal.size, 0, 0});
      }
    // Few slots may ask for another order of the transfers.
    bool sameOrder = true;
    for (size_t rank = 0; rank != variant.programs.size(); ++rank)
      sameOrder = sameOrder && issued(variant.programs[rank]) == issued(free.lowered->variant.programs[rank]);
    if (!sameOrder || each.fillWeights) // W fill what the compiler expects to be idle
      continue;
    ++compared;
    plan::Time span = 0;
    ASSERT_TRUE(simulate::span(variant, span, after).ok());
    EXPECT_EQ(after.makespan, free.lowered->result.makespan);
    EXPECT_EQ(span, free.lowered->span);
  }
  EXPECT_GT(compared, seen(40));
  EXPECT_GT(raisedRings, seen(40));
}

} // namespace
