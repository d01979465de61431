// Time goes on from decision to decision: a rank looks at what has arrived when it is free or something arrives for it.
// A pair runs when both passes can; one runs alone only if no partner is known to come soon.
#include "compiler/schedule/overlap/Pairing.h"

#include <algorithm>
#include <array>
#include <limits>
#include <queue>

namespace pipec::schedule {

namespace {

using Level = __int128; // sizes within the limits times as many microbatches may pass 2^63
constexpr Time kNever = std::numeric_limits<Time>::max();
enum Kind : size_t { Forward, Backward };

class PairLister {
public:
  PairLister(const Problem &problem, const Capacities &capacities, const PairPolicy &policy)
      : problem(problem), capacities(capacities), policy(policy), mine(problem.stagesByRank()),
        stages(problem.stages.size()), ranks(size_t(problem.ranks)), words(size_t(problem.ranks)) {
    for (size_t s = 0; s != stages.size(); ++s)
      if (problem.before(int32_t(s)) < 0)
        stages[s].arrivals[Forward].assign(size_t(problem.microbatches), 0);
  }

  /// Nothing where memory does not hold what has begun.
  std::optional<Words> run() {
    for (int32_t r = 0; r < problem.ranks; ++r)
      wake(r, 0);
    while (!decisions.empty()) {
      const auto [time, rank] = decisions.top();
      decisions.pop();
      RankState &state = ranks[size_t(rank)];
      if (time != state.wakes)
        continue; // it had another before
      state.wakes = kNever;
      decide(rank, time);
    }
    for (const StageState &stage : stages)
      if (stage.done[Backward] < problem.microbatches)
        return std::nullopt;
    return std::move(words);
  }

private:
  struct StageState {
    std::array<std::vector<Time>, 2> arrivals; // of the input of each F (B), as far as known
    std::array<int32_t, 2> done = {0, 0};
  };
  struct RankState {
    Time free = 0;
    Time wakes = kNever; // to its next decision
    Level live = 0;
    int32_t flight = 0;           // F less B
    std::vector<int32_t> weights; // stages of W to come, the oldest first from `nextWeight` on
    size_t nextWeight = 0;
  };
  /// A next letter of a kind, and when its input is there.
  struct Next {
    int32_t stage = -1;
    Time ready = kNever;
  };

  const Problem &problem;
  const Capacities &capacities;
  const PairPolicy &policy;
  const std::vector<std::vector<int32_t>> mine;
  std::vector<StageState> stages;
  std::vector<RankState> ranks;
  Words words;
  std::priority_queue<std::pair<Time, int32_t>, std::vector<std::pair<Time, int32_t>>, std::greater<>> decisions;

  void wake(int32_t rank, Time time) {
    RankState &state = ranks[size_t(rank)];
    time = std::max(time, state.free);
    if (time >= state.wakes)
      return;
    state.wakes = time;
    decisions.push({time, rank});
  }

  Time readyOf(int32_t s, Kind kind) const {
    const StageState &stage = stages[size_t(s)];
    const auto n = size_t(stage.done[kind]);
    if (kind == Backward &&
        (n >= size_t(problem.microbatches) || problem.backwardOf(int32_t(n)) >= stage.done[Forward]))
      return kNever;
    if (kind == Backward && problem.after(s) < 0)
      return 0; // its F has run on this rank
    return n < stage.arrivals[kind].size() ? stage.arrivals[kind][n] : kNever;
  }

  /// Among what is there at `time`, the deepest stage or the oldest microbatch; if nothing is, what comes first.
  Next next(int32_t rank, Kind kind, Time time) const {
    Next best;
    for (const int32_t s : mine[size_t(rank)]) {
      const Next other{s, std::max(readyOf(s, kind), time)};
      if (other.ready == kNever)
        continue;
      const bool older = stages[size_t(s)].done[kind] < (best.stage < 0 ? 0 : stages[size_t(best.stage)].done[kind]);
      if (best.stage < 0 || other.ready < best.ready ||
          (other.ready == best.ready && (policy.deepest ? kind == Forward : older)))
        best = other;
    }
    return best;
  }

  void decide(int32_t rank, Time time) {
    RankState &state = ranks[size_t(rank)];
    Next forward = next(rank, Forward, time);
    const Next backward = next(rank, Backward, time);
    const int32_t most = policy.base == 0 && policy.slope == 0
                             ? std::numeric_limits<int32_t>::max()
                             : (policy.base + policy.slope * (problem.ranks - 1 - rank)) / 100;
    const bool hasRoom = forward.stage >= 0 && fits(rank, forward.stage);
    // With a backward beside it, a forward is no more in flight than before.
    const bool mayStart = hasRoom && state.flight < most;
    if (hasRoom && backward.stage >= 0 && mayOverlap(problem, forward.stage, backward.stage)) {
      const Stage &stage = problem.stages[size_t(forward.stage)], &other = problem.stages[size_t(backward.stage)];
      const Time saved = stage.forward + other.backward - *stage.overlapped;
      const Time later = std::max(forward.ready, backward.ready);
      if (saved > 0 && later == time)
        return pair(rank, forward.stage, backward.stage, time);
      if (saved > 0 && std::min(forward.ready, backward.ready) == time && later - time <= saved * policy.patience / 100)
        return wake(rank, later);
    }
    if (backward.ready == time)
      return alone(rank, backward.stage, problem.backward == BackwardMode::Fused ? Letter::BW : Letter::B, time);
    if (mayStart && forward.ready == time)
      return alone(rank, forward.stage, Letter::F, time);
    if (state.nextWeight < state.weights.size())
      return alone(rank, state.weights[state.nextWeight++], Letter::W, time);
    const Time soonest = std::min(mayStart ? forward.ready : kNever, backward.ready);
    if (soonest != kNever)
      wake(rank, soonest);
  }

  bool fits(int32_t rank, int32_t stage) const {
    return capacities.empty() ||
           ranks[size_t(rank)].live + changeOf(problem.stages[size_t(stage)], Letter::F) <= capacities[size_t(rank)];
  }

  /// A letter of a rank that ends at a time.
  void note(int32_t rank, const Op &op, Time end) {
    RankState &state = ranks[size_t(rank)];
    words[size_t(rank)].push_back(op);
    state.live += changeOf(problem.stages[size_t(op.stage)], op.letter);
    state.free = end;
    if (op.letter == Letter::W)
      return;
    if (op.letter == Letter::B)
      state.weights.push_back(op.stage);
    const Kind kind = op.letter == Letter::F ? Forward : Backward;
    state.flight += kind == Forward ? 1 : -1;
    ++stages[size_t(op.stage)].done[kind];
    const int32_t to = kind == Forward ? problem.after(op.stage) : problem.before(op.stage);
    if (to < 0)
      return;
    const Time arrival = end + problem.handOver(op.stage, to);
    stages[size_t(to)].arrivals[kind].push_back(arrival);
    wake(problem.rankOf[size_t(to)], arrival);
  }

  void alone(int32_t rank, int32_t stage, Letter letter, Time time) {
    const Time end = time + costOf(problem.stages[size_t(stage)], letter);
    note(rank, {stage, letter}, end);
    wake(rank, end);
  }

  void pair(int32_t rank, int32_t forward, int32_t backward, Time time) {
    const Time end = time + *problem.stages[size_t(forward)].overlapped;
    note(rank, {forward, Letter::F, true}, end);
    note(rank, {backward, Letter::BW}, end);
    wake(rank, end);
  }
};

} // namespace

std::optional<Words> listPairs(const Problem &problem, const Capacities &capacities, const PairPolicy &policy) {
  return PairLister(problem, capacities, policy).run();
}

} // namespace pipec::schedule
