// An overlapped pair saves its rank some time s: f + b + w less the time of the pair. Sigma is the largest s over all
// pairs of a rank. A pair lasts at least as long as each of its two passes, so no data path gets shorter. Forwards
// still run one at a time, and so do backwards and W.
#include "compiler/schedule/bounds/BoundsPairs.h"

#include "runtime/plan/Limits.h"

#include <algorithm>

namespace pipec::schedule::bounds {

namespace {

/// The most that a pair of a rank saves: as a time, and as a fraction of its forward's and of its backward's time. No
/// fraction is above 1, since a pair takes no less time than either of its two passes.
struct Saving {
  Wide most = 0;
  Item ofForward = {1, 0}, ofBackward = {1, 0}; // fractions, as value / size
};

Saving savingOf(const Problem &problem, const View &view, const RankView &rank) {
  Saving saving;
  const auto offer = [](Item &ratio, Wide value, Wide size) {
    if (value * ratio.size > ratio.value * size)
      ratio = {size, value};
  };
  for (const int32_t f : rank.stages)
    for (const int32_t b : rank.stages) {
      if (!problem.stages[size_t(f)].overlapped)
        continue;
      const Wide forward = view.stages[size_t(f)].f, backward = view.stages[size_t(b)].b + view.stages[size_t(b)].w;
      const Wide saved = forward + backward - *problem.stages[size_t(f)].overlapped;
      if (saved <= 0 || saved > std::min(forward, backward)) // a pair cannot save more than its shorter pass
        continue;
      saving.most = std::max(saving.most, saved);
      offer(saving.ofForward, saved, forward);
      offer(saving.ofBackward, saved, backward);
    }
  return saving;
}

Wide part(const Item &ratio, Wide of) {
  // A product could exceed 128 bits (2^80 times 2^60), so quotient and remainder are multiplied separately.
  return of / ratio.size * ratio.value + of % ratio.size * ratio.value / ratio.size;
}

} // namespace

/// Take a rank. Let u be the F work before its first backward starts, which is at least `reach` after the rank's start,
/// and let U be the most F work that memory allows there. No F in u is part of a pair. So pairs save at most rho times
/// the rest of the F work, where rho is the largest fraction of an F's time that a pair saves. The rank's time is at
/// least work + (reach - u)+ - rho (forwards - u). As rho is at most 1, this is least at u = min(reach, U). The same
/// argument holds for v, the B and W work after the end of the rank's last F. That F belongs to the rank's highest
/// stage in some copy. By data, at least Z passes from the end of that F to the end of the same microbatch's backward
/// on the rank's lowest stage. What follows the rank's last backward is added to both, as in LB2: only W, at most
/// `pending`, while `tail` passes.
void apartAtTheEnds(const Problem &problem, const View &view, Best &best) {
  for (const RankView &rank : view.ranks) {
    const Saving saving = savingOf(problem, view, rank);
    const StageView &first = view.stages[size_t(rank.first)];
    const Wide after = positive(rank.tail - rank.optimizer - rank.pending);
    const Wide begun = std::min(rank.reach, rank.warmUp);
    const Wide idle = rank.reach - begun;
    const Wide down = rank.work + idle - part(saving.ofForward, positive(rank.forwards - begun));
    best.offer(first.headF + down + after, down, idle > 0 ? Argument::WarmUp : Argument::Work);

    Wide back = kNever;
    for (size_t i = 0; i < rank.stages.size();) { // one round per copy
      const StageView &lowest = view.stages[size_t(rank.stages[i])];
      for (++i; i < rank.stages.size() && !view.stages[size_t(rank.stages[i])].isFirst;)
        ++i;
      const StageView &highest = view.stages[size_t(rank.stages[i - 1])];
      back = std::min(back, lowest.headB + lowest.b - highest.headF - highest.f);
    }
    const Wide backwards = rank.work - rank.optimizer - rank.forwards;
    const auto without = [&](Wide unpaired) {
      return rank.work - part(saving.ofBackward, positive(backwards - unpaired));
    };
    best.offer(first.headF + without(back + std::min(rank.pending, positive(rank.tail - rank.optimizer))) + after,
               without(back), Argument::Work);
  }
}

/// Only for one copy. Let T be the span of an order, in a timing in which no rank takes longer than T. A rank with n
/// pairs takes at least work - n sigma, so n >= (work - T) / sigma. Consider a pair of a forward of stage t and a
/// backward of stage u that takes X. The pair hands on the forward's output X after its start, not f, and the
/// backward's output X after its start, not b. The memory of its two microbatches is held that much longer: on the
/// rank's stages up to t, and on those up to u; u's own context is held X - b - w longer. Let H(t) be the bytes that a
/// microbatch holds on the rank for stages up to t. Then n pairs add at least n times an area to the rank. The area is
/// the least over t and u of H(t) (X - f) + H(u) (X - b), less o w of u if u is on the rank. The whole area is at most
/// capacity × (T - optimizer). Bisection finds the least T that satisfies this: as T grows, the capacity side grows and
/// the area shrinks.
void pairsAndArea(const Problem &problem, const View &view, Best &best) {
  constexpr Wide kMostHeld = Wide(1) << 61;
  const RankView *rank = narrowest(view).rank;
  if (rank == nullptr || problem.copies != 1)
    return;
  std::vector<Wide> held(view.stages.size(), 0); // H
  Wide all = 0, alone = 0;
  for (const int32_t s : rank->stages)
    all += (view.stages[size_t(s)].a + view.stages[size_t(s)].o) * view.microbatches;
  const Wide most = std::min(rank->capacity, all);
  if (most == 0)
    return;
  // Quotients and remainders are multiplied separately, to stay in 128 bits.
  const auto times = [&](Wide area, Wide count) { return area / most * count + area % most * count / most; };
  Wide sum = 0;
  for (size_t s = 0; s < view.stages.size(); ++s) {
    const StageView &stage = view.stages[s];
    if (view.rankOf[s] == view.rankOf[size_t(rank->first)]) {
      sum = std::min(sum + stage.a + stage.o, kMostHeld);
      const Wide trip = std::min<Wide>(stage.roundTrip(), limits::kTime);
      alone += times(stage.a * trip + stage.o * (trip + stage.w), view.microbatches);
    }
    held[s] = sum;
  }
  struct Rank {
    Wide work, sigma, area; // work of the rank, time that a pair saves, area that a pair adds
  };
  std::vector<Rank> ranks;
  for (const RankView &each : view.ranks) {
    Rank made{each.work, savingOf(problem, view, each).most, kNever};
    for (const int32_t t : each.stages)
      for (const int32_t u : each.stages)
        if (const auto &together = problem.stages[size_t(t)].overlapped) {
          const StageView &forward = view.stages[size_t(t)], &backward = view.stages[size_t(u)];
          const bool own = &each == rank;
          made.area = std::min(made.area, held[size_t(t)] * positive(*together - forward.f) +
                                              positive(held[size_t(u)] * positive(*together - backward.b) -
                                                       (own ? backward.o * backward.w : 0)));
        }
    if (made.sigma > 0)
      ranks.push_back(made);
  }
  const auto holds = [&](Wide span) {
    Wide time = alone;
    for (const Rank &each : ranks)
      if (span < each.work)
        time += times(each.area, std::min<Wide>(ceilDivide(each.work - span, each.sigma),
                                                view.microbatches * Wide(view.stages.size())));
    return span - rank->optimizer >= time;
  };
  Wide low = best.span, high = low;
  for (const RankView &each : view.ranks)
    high = std::max(high, each.work);
  if (holds(low) || !holds(high))
    return;
  while (high - low > 1) {
    const Wide middle = low + (high - low) / 2;
    (holds(middle) ? high : low) = middle;
  }
  best.offer(high, high, Argument::Area);
}

} // namespace pipec::schedule::bounds
