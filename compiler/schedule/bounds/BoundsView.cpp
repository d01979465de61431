#include "compiler/schedule/bounds/BoundsView.h"

#include "compiler/schedule/model/Capacity.h"

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pipec::schedule::bounds {

Wide knapsack(const std::vector<Item> &items, Wide count, Wide capacity) {
  Wide value = 0, total = 0;
  int64_t divisor = 0;
  std::vector<Item> sized;
  for (const Item &item : items) {
    total += item.size * count;
    divisor = std::gcd(divisor, static_cast<int64_t>(item.size));
    if (item.size == 0)
      value += item.value * count;
    else
      sized.push_back(item);
  }
  capacity = positive(capacity);
  if (divisor > 0 && capacity < total)
    capacity = capacity / divisor * divisor;
  std::sort(sized.begin(), sized.end(),
            [](const Item &x, const Item &y) { return x.value * y.size > y.value * x.size; });
  for (const Item &item : sized) {
    const Wide taken = std::min(item.size * count, capacity);
    value += taken / item.size * item.value + taken % item.size * item.value / item.size;
    capacity -= taken;
  }
  return value;
}

/// Bytes can be freed in two ways, by B alone or by B with W; one way has the better rate. Tries up to 63 of the worse
/// way, each time with as many of the better way as are then needed. From 64 on, the rest counts at the better rate,
/// rounded down. So the result never exceeds the exact least time, and is exact in most cases.
Wide leastToFree(const StageView &stage, Wide bytes, Wide count) {
  if (bytes <= 0)
    return 0;
  struct {
    Wide size, cost;
  } good = {stage.a, stage.b}, poor = {stage.a + stage.o, stage.b + stage.w};
  if (poor.cost * good.size <= good.cost * poor.size)
    std::swap(good, poor);
  constexpr int kTries = 64;
  Wide best = kNever;
  for (int n = 0; n < kTries; ++n) {
    const Wide rest = ceilDivide(positive(bytes - n * poor.size), good.size);
    if (rest <= count)
      best = std::min(best, n * poor.cost + rest * good.cost);
    if (rest == 0)
      return best;
  }
  const Wide rest = positive(bytes - kTries * poor.size);
  return std::min(best, kTries * poor.cost + std::min(rest / good.size, count) * good.cost);
}

View makeView(const Problem &problem) {
  const bool fused = problem.backward == BackwardMode::Fused, mixed = problem.mixed;
  const auto count = static_cast<int32_t>(problem.stages.size());
  View view{problem.microbatches, problem.copies == 1 && problem.slices == 1, {}, {}, problem.rankOf};
  for (const Stage &stage : problem.stages) {
    StageView &own = view.stages.emplace_back();
    own.f = stage.forward;
    // A BW counts as a B with a shorter W: the gradient leaves no later, and nothing is freed later.
    own.b = mixed ? problem.leastBackwardTime(stage) : problem.backwardTime(stage);
    own.w = mixed ? problem.leastWeightTime(stage) : problem.weightTime(stage);
    own.r = stage.recompute;
    own.b -= own.r;
    own.a = fused ? Wide(stage.activation) + stage.context : Wide(stage.activation);
    own.o = fused ? 0 : stage.context;
    if (stage.input) { // R replaces the input by at least as many bytes, so the input counts as held until B ends
      own.again = own.a + own.o - *stage.input;
      own.a = *stage.input;
      own.o = 0;
    }
  }
  std::vector<StageView> &stages = view.stages;
  for (int32_t s = 0; s < count; ++s) {
    if (problem.before(s) < 0)
      continue;
    stages[s].headF = stages[s - 1].headF + stages[s - 1].f + problem.handOver(s - 1, s);
    stages[s].upTo = stages[s - 1].upTo + stages[s - 1].b + problem.handOver(s, s - 1);
  }
  const int32_t ofCopy = problem.stagesOfCopy();
  for (int32_t s = 0; s < count; ++s) {
    const StageView &end = stages[(s / ofCopy + 1) * ofCopy - 1];
    stages[s].headB = end.headF + end.f + end.r + end.upTo - stages[s].upTo + end.b - stages[s].b;
  }

  const std::vector<__int128> always = heldAlways(problem, 1);
  for (const std::vector<int32_t> &mine : problem.stagesByRank()) {
    RankView rank;
    rank.stages = mine;
    rank.first = mine.front();
    Wide leastHeld = kNever; // least activation that the rank's last B may hold
    for (size_t i = 0; i != mine.size(); ++i) {
      StageView &stage = stages[mine[i]];
      stage.isFirst = i == 0 || mine[i] / ofCopy != mine[i - 1] / ofCopy;
      stage.start = stage.isFirst ? stage.headF : stages[mine[i - 1]].start;
      stage.holds = stage.a + stage.o + (stage.isFirst ? 0 : stages[mine[i - 1]].holds);
      if (stage.isFirst)
        leastHeld = std::min(leastHeld, stage.a);
      if (stage.start < stages[rank.first].headF)
        rank.first = mine[i];
      rank.reach = std::min(rank.reach, stage.headB - stage.start); // in a copy the last stage decides
    }
    for (int32_t s : mine) {
      rank.optimizer += problem.stages[s].optimizer;
      rank.forwards += stages[s].f * problem.microbatches;
      rank.weights += stages[s].w * problem.microbatches;
      rank.again += stages[s].r * problem.microbatches;
      rank.work += (stages[s].f + stages[s].b + stages[s].w) * problem.microbatches + problem.stages[s].optimizer;
    }
    rank.warmUp = rank.forwards;
    rank.pending = rank.weights;
    rank.warmUpAgain = rank.forwards + rank.again;
    const auto index = view.ranks.size();
    if (problem.memoryLimit > 0) {
      rank.capacity = positive(problem.memoryLimit - always[index]);
      // If the limit holds no microbatch of a stage, there is no order. Raising the capacity to hold one keeps
      // everything below defined.
      for (int32_t s : mine)
        rank.capacity = std::max(rank.capacity, stages[s].a + stages[s].o);
      // Before the first B nothing is freed, so every F started is held at once. During the last B, its activation is
      // held, and so is the context of every W still to come.
      std::vector<Item> held, owed, more;
      for (int32_t s : mine) {
        more.push_back({stages[s].again, stages[s].r});
        held.push_back({stages[s].a + stages[s].o, stages[s].f});
        owed.push_back({stages[s].o, stages[s].w});
      }
      rank.warmUp = knapsack(held, problem.microbatches, rank.capacity);
      more.insert(more.end(), held.begin(), held.end());
      rank.warmUpAgain = knapsack(more, problem.microbatches, rank.capacity);
      rank.pending = knapsack(owed, problem.microbatches, rank.capacity - leastHeld);
    }
    Wide longest = -kNever;
    for (int32_t s : mine) {
      longest = std::max(stages[s].isFirst ? -kNever : longest, stages[s].w - stages[s].upTo);
      stages[s].rankTail = longest + stages[s].upTo + rank.optimizer;
    }
    view.ranks.push_back(rank);
  }
  Wide longest = -kNever;
  for (int32_t s = 0; s < count; ++s) {
    if (problem.before(s) < 0)
      longest = -kNever;
    longest = std::max(longest, stages[s].w + view.ranks[problem.rankOf[s]].optimizer - stages[s].upTo);
    stages[s].tail = longest + stages[s].upTo;
  }
  for (int32_t s = 0; s < count; ++s)
    if (RankView &rank = view.ranks[problem.rankOf[s]]; stages[s].isFirst)
      rank.tail = std::min(rank.tail, stages[s].tail);
  return view;
}

Narrowest narrowest(const View &view) {
  Narrowest narrowest;
  for (const RankView &rank : view.ranks) {
    if (rank.capacity == kNever || rank.capacity == 0)
      continue;
    Wide fill = 0, work = 0;
    for (const int32_t s : rank.stages) {
      const StageView &stage = view.stages[size_t(s)];
      fill += (stage.a + stage.o) * std::min<Wide>(stage.roundTrip(), limits::kTime) / rank.capacity;
      work += stage.f + stage.b + stage.w;
    }
    if (fill > narrowest.fill)
      narrowest = {&rank, fill, work};
  }
  return narrowest;
}

std::vector<const RankView *> byFirstStage(const View &view) {
  std::vector<const RankView *> ranks;
  for (const RankView &rank : view.ranks)
    ranks.push_back(&rank);
  std::sort(ranks.begin(), ranks.end(), [](const RankView *a, const RankView *b) { return a->first < b->first; });
  return ranks;
}

Wide aroundOf(const View &view, const RankView &rank) {
  const StageView &first = view.stages[size_t(rank.first)];
  return first.rankTail - first.headF - first.upTo;
}

} // namespace pipec::schedule::bounds
