// Each rank runs its word until it comes to a letter whose input is not made yet. The rank is then noted at the stage
// that makes the input, and put back on the list when that stage's next letter is done. Every letter is visited once,
// so a walk is linear, and what is left when the list is empty stands in a cycle.
#include "compiler/schedule/evaluate/WordWalk.h"

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <utility>

namespace pipec::schedule {

namespace {

// A walk ends within its latest release and one step, each at most kTime; with a hand-over and a cost on top, at most
// kTime each, sums stay in 64 bits.
constexpr Time kLatest = 2 * limits::kTime;

} // namespace

Walk::Walk(const Problem &problem, const Words &words, bool withOrigins)
    : problem(problem), words(words), withOrigins(withOrigins), stride(size_t(problem.microbatches) + 8),
      ranks(problem.ranks), optimizer(problem.ranks, 0) {
  const auto count = static_cast<int32_t>(problem.stages.size());
  stages.reserve(count);
  for (int32_t s = 0; s < count; ++s) {
    const Stage &stage = problem.stages[s];
    stages.push_back({.forward = stage.forward,
                      .backward = stage.backwardInput - stage.recompute,
                      .weight = stage.backwardWeight,
                      .whole = stage.backward - stage.recompute,
                      .recompute = stage.recompute,
                      .down = problem.after(s) >= 0 ? problem.handOver(s, s + 1) : 0,
                      .up = problem.before(s) >= 0 ? problem.handOver(s, s - 1) : 0,
                      .forwards = 0,
                      .backwards = 0,
                      .forwardWaiter = -1,
                      .backwardWaiter = -1,
                      .isFirst = problem.before(s) < 0,
                      .isLast = problem.after(s) < 0,
                      .isSummed = false,
                      .done = 0,
                      .doneOrigin = 0});
    optimizer[problem.rankOf[s]] += stage.optimizer;
  }
  for (const SharedWeight &weight : problem.shared) {
    const std::vector<int32_t> of = ranksOf(problem, weight);
    if (of.size() < 2)
      continue;
    Sum &sum = sums.emplace_back();
    sum.takes = sharedSumTime(problem, weight);
    sumsOf.resize(size_t(count));
    for (const int32_t rank : of)
      sum.ranks.push_back({rank, {}});
    for (const int32_t s : weight.stages) {
      stages[size_t(s)].isSummed = true;
      sumsOf[size_t(s)].push_back(int32_t(sums.size()) - 1);
      for (auto &[rank, own] : sum.ranks)
        if (rank == problem.rankOf[size_t(s)])
          own.push_back(s);
    }
  }
  if (!sums.empty())
    for (const std::vector<int32_t> &held : problem.stagesByRank())
      updates.push_back(updateOrder(problem, held));
  const size_t letters = size_t(count) * stride;
  forwardArrival = std::make_unique_for_overwrite<Time[]>(letters);
  backwardArrival = std::make_unique_for_overwrite<Time[]>(letters);
  if (withOrigins) {
    forwardOrigin = std::make_unique_for_overwrite<int32_t[]>(letters);
    backwardOrigin = std::make_unique_for_overwrite<int32_t[]>(letters);
  }
  awake.reserve(problem.ranks); // a rank waits at one stage, so it is listed once at most
}

Walk::Outcome Walk::run(const std::vector<Time> &release, std::vector<std::vector<Time>> *starts) {
  for (StageState &stage : stages) {
    stage.forwards = stage.backwards = 0;
    stage.done = 0;
    stage.forwardWaiter = stage.backwardWaiter = -1;
  }
  awake.clear();
  for (int32_t r = problem.ranks; r-- > 0;) {
    ranks[r] = {.now = release[r], .origin = r, .position = 0};
    awake.push_back(r);
  }
  if (!(withOrigins ? runAll<true>(starts) : runAll<false>(starts)))
    return Outcome::TooLong;
  for (int32_t r = 0; r < problem.ranks; ++r)
    if (ranks[r].position < words[r].size())
      return Outcome::Cycle;
  sumCopies();
  sumShared();
  if (problem.globalNorm) { // no optimizer starts before all ranks have reduced
    const RankState last = *std::max_element(ranks.begin(), ranks.end(),
                                             [](const RankState &a, const RankState &b) { return a.now < b.now; });
    for (RankState &rank : ranks) {
      rank.now = last.now + *problem.globalNorm;
      rank.origin = last.origin;
    }
  }
  update();
  return Outcome::Done;
}

/// The ranks that hold a shared weight wait for each other, then for its sum; one sum after the other. Norms wait for
/// all of them.
void Walk::sumShared() {
  std::vector<std::pair<Time, int32_t>> free(sums.empty() ? 0 : ranks.size()); // when a rank's last sum ends
  for (Sum &sum : sums) {
    std::pair<Time, int32_t> start{-1, 0};
    const auto await = [&](Time time, int32_t origin) {
      if (time > start.first)
        start = {time, origin};
    };
    for (const auto &[rank, own] : sum.ranks) {
      if (free[size_t(rank)].first > 0)
        await(free[size_t(rank)].first, free[size_t(rank)].second);
      for (const int32_t s : own)
        await(stages[size_t(s)].done, stages[size_t(s)].doneOrigin);
    }
    sum.end = start.first + sum.takes;
    sum.origin = start.second;
    for (const auto &[rank, own] : sum.ranks)
      free[size_t(rank)] = {sum.end, sum.origin};
  }
  for (size_t r = 0; problem.globalNorm && r != free.size(); ++r)
    if (free[r].first > ranks[r].now) {
      ranks[r].now = free[r].first;
      ranks[r].origin = free[r].second;
    }
}

/// A stage's optimizer waits for the sums of its weights.
void Walk::update() {
  for (size_t r = 0; r != ranks.size(); ++r) {
    RankState &rank = ranks[r];
    if (sums.empty())
      rank.now += optimizer[r];
    for (const int32_t s : sums.empty() ? std::vector<int32_t>() : updates[r]) {
      for (const int32_t sum : sumsOf[size_t(s)])
        if (sums[size_t(sum)].end > rank.now) {
          rank.now = sums[size_t(sum)].end;
          rank.origin = sums[size_t(sum)].origin;
        }
      rank.now += problem.stages[size_t(s)].optimizer;
    }
  }
}

/// Partners wait for each other, then for the sum of what both have.
void Walk::sumCopies() {
  for (int32_t r = 0; r < problem.ranks; ++r) {
    const int32_t partner = problem.partnerOf(r);
    if (partner <= r)
      continue;
    RankState &one = ranks[r], &other = ranks[partner];
    const RankState &last = one.now < other.now ? other : one;
    const Time end = last.now + copySumTime(problem, r);
    const int32_t origin = last.origin;
    one.now = other.now = end;
    one.origin = other.origin = origin;
  }
}

template <bool kOrigins> bool Walk::runAll(std::vector<std::vector<Time>> *starts) {
  while (!awake.empty()) {
    const int32_t rank = awake.back();
    awake.pop_back();
    if (!advance<kOrigins>(rank, starts ? (*starts)[rank].data() : nullptr))
      return false;
  }
  return true;
}

/// Runs a rank as far as it gets. False: past the latest time.
template <bool kOrigins> bool Walk::advance(int32_t rank, Time *starts) {
  const Word &word = words[rank];
  RankState state = ranks[rank];
  const auto awaken = [this](int32_t &waiter) {
    if (waiter >= 0)
      awake.push_back(waiter);
    waiter = -1;
  };
  const auto await = [&state](Time arrival, const int32_t *origin) {
    if (arrival <= state.now)
      return;
    state.now = arrival;
    if constexpr (kOrigins)
      state.origin = *origin;
  };

  // Whether the arrival of a letter's input is known; if not, the rank is noted at the stage that will make it.
  const auto isKnown = [&](const Op &op) {
    StageState &stage = stages[op.stage];
    if (op.letter == Letter::F ? stage.isFirst : op.letter == Letter::W || stage.isLast)
      return true;
    StageState &producer = stages[op.stage + (op.letter == Letter::F ? -1 : 1)];
    const bool known =
        op.letter == Letter::F ? producer.forwards > stage.forwards : producer.backwards > stage.backwards;
    if (!known)
      (op.letter == Letter::F ? producer.forwardWaiter : producer.backwardWaiter) = rank;
    return known;
  };
  const auto take = [&](const Op &op) {
    const StageState &stage = stages[op.stage];
    if (op.letter == Letter::F && !stage.isFirst) {
      const size_t from = (size_t(op.stage) - 1) * stride + size_t(stage.forwards);
      await(forwardArrival[from], kOrigins ? &forwardOrigin[from] : nullptr);
    } else if (op.letter != Letter::F && op.letter != Letter::W && !stage.isLast) {
      const size_t from = (size_t(op.stage) + 1) * stride + size_t(stage.backwards);
      await(backwardArrival[from], kOrigins ? &backwardOrigin[from] : nullptr);
    }
  };

  Time pair = -1; // what the overlapped pair that has begun takes
  for (; state.position < word.size(); ++state.position) {
    const Op &op = word[state.position];
    if (!isKnown(op) || (op.overlapped && !isKnown(word[state.position + 1])))
      break;
    StageState &stage = stages[op.stage];
    const bool behind = pair >= 0; // the second of a pair
    if (!behind) {
      if (const Op &backward = op.overlapped ? word[state.position + 1] : op;
          backward.letter != Letter::F && backward.letter != Letter::W)
        state.now += stages[backward.stage].recompute;
      take(op);
    }
    const size_t own = size_t(op.stage) * stride;
    Time cost = op.letter == Letter::F   ? stage.forward
                : op.letter == Letter::W ? stage.weight
                : op.letter == Letter::B ? stage.backward
                                         : stage.whole;
    if (op.overlapped) {
      take(word[state.position + 1]);
      cost = pair = pairCost(problem, op, word[state.position + 1]);
    } else if (behind) {
      cost = std::exchange(pair, -1);
    }
    if (op.letter == Letter::F) {
      const size_t j = stage.forwards;
      forwardArrival[own + j] = state.now + cost + stage.down;
      if constexpr (kOrigins)
        forwardOrigin[own + j] = state.origin;
      ++stage.forwards;
      awaken(stage.forwardWaiter);
    } else if (op.letter != Letter::W) {
      const size_t j = stage.backwards;
      backwardArrival[own + j] = state.now + cost + stage.up;
      if constexpr (kOrigins)
        backwardOrigin[own + j] = state.origin;
      ++stage.backwards;
      awaken(stage.backwardWaiter);
    }
    if (starts) // of a backward, so that its time with its R ends when it does
      starts[state.position] =
          state.now - (behind || op.letter == Letter::F || op.letter == Letter::W ? 0 : stage.recompute);
    if (!op.overlapped) // both of a pair start now and end together
      state.now += cost;
    if (stage.isSummed) {
      stage.done = state.now;
      stage.doneOrigin = state.origin;
    }
    if (state.now > kLatest)
      return false;
  }
  ranks[rank] = state;
  return true;
}

} // namespace pipec::schedule
