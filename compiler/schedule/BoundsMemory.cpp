// The arguments from memory alone: the chain through what must be freed, and the area under what is held.
#include "compiler/schedule/BoundsMemory.h"

#include "runtime/plan/Limits.h"

#include <algorithm>

namespace pipec::schedule::bounds {

namespace {

/// Two microbatches cross where the later one, i, comes down as the earlier one, j, comes back: at each stage F(i) and
/// B(j) share a rank. Let g be how much later F(i) starts at stage s than F(j), and n the first stage from s on at
/// which B(j) runs first (from there on it always does). If B(j) ends e(j) later at s than R(s) after F(j), then F(i)
/// at n waits for B(j), so e(i) >= R(n) - g; and B(j) at n - 1 waits for F(i), so e(j) >= g - (R(n-1) - f(n-1) -
/// b(n-1)). So each n has its interval of g that costs nothing, as wide as the transfers between n - 1 and n.
///
/// On the chain of K: S(j), from F(j) to F(j+K), is R + d + x(j), with x(j) >= e(j) >= 0. Let microbatch j+1 cross j at
/// n, and j+K cross j+1 at n'. Adding up, x(j+1) >= alpha = R + d - U(n) - U(n') and x(j) + x(j+1) + x(j+K) >= beta =
/// L(n) + L(n') - R - d, L and U being the ends of the intervals. Of all n and n', some have alpha >= beta: there
/// x(j+1) is alpha at least; the others have the sum at beta. Where they do not cross (F(j+1) starts after B(j) has
/// ended, or F(j+K) after B(j+1)), what is left of S(j) is the other gap, and the sum is no less than the least of f +
/// b of the last stage less d, f + b, f + 2b - d and R - d. With the least of each, alpha <= beta or lowered to it,
/// x(j+1) / alpha + (x(j) + x(j+K)) / beta >= 1 always. So of the chains through j and through j+1, each of q steps,
/// one has x's of at least (q - 1) / (1 / alpha + 2 / beta) in all.
struct Crossing {
  Wide alpha = 0, beta = 0; // 0: crossing costs nothing

  Wide cost(Wide steps) const {
    return alpha <= 0 || steps < 2 ? 0 : ceilDivide((steps - 1) * alpha * beta, 2 * alpha + beta);
  }
};

Crossing crossingOf(const View &view, size_t s, Wide step) {
  constexpr size_t kMostStages = 1024; // of longer chains it costs nothing that matters
  const size_t count = view.stages.size();
  const StageView &own = view.stages[s], &last = view.stages[count - 1];
  if (s + 1 >= count || count - s > kMostStages)
    return {};
  const Wide rest = step - own.roundTrip(); // d
  Crossing crossing{kNever,
                    std::min({last.f + last.b - rest, own.f + own.b, own.f + 2 * own.b - rest, step - 2 * rest})};
  const auto least = [&](size_t n) { return n == count ? Wide(0) : view.stages[n].roundTrip(); };
  const auto most = [&](size_t n) {
    return view.stages[n - 1].roundTrip() - view.stages[n - 1].f - view.stages[n - 1].b;
  };
  const auto isAlpha = [&](size_t n, size_t other) {
    return least(n) + most(n) + least(other) + most(other) <= 2 * step;
  };
  // The further down, the smaller L and U, so with n going down the split between the two kinds goes up.
  size_t other = s + 1;
  for (size_t n = count; n > s; --n) {
    while (other <= count && !isAlpha(n, other))
      ++other;
    if (other <= count)
      crossing.alpha = std::min(crossing.alpha, step - most(n) - most(other));
    const size_t below = std::min(other - 1, count - 1);
    if (below > s && n < count)
      crossing.beta = std::min(crossing.beta, least(n) + least(below) - step);
  }
  // F may also run before the other's B all the way: U is 0 then.
  crossing.alpha = std::min(crossing.alpha, step - most(s + 1));
  crossing.alpha = positive(std::min(crossing.alpha, crossing.beta));
  crossing.beta = positive(crossing.beta);
  return crossing;
}

} // namespace

/// LB6, memory chain, of one stage s that can hold K < m microbatches (what else its rank holds only makes it worse).
/// F(j+K) starts with K + 1 of the microbatches from j on begun, so these have freed (K+1)(a+o) - capacity bytes: B(j)
/// among others, which ends R after the start of F(j) at least, and after it the rest of what frees that much. Hence
/// F(j+K) starts R + d after F(j), d the least such rest. And F(i), i >= K, starts after i forwards, after what freed
/// enough bytes for i + 1, and after the idle time before the first B of s, when at most K forwards of s can run. So
/// for any i, start(i) + floor((m-1-i)/K)(R+d) + ((m-1-i) mod K) f bounds the start of the last F, which R and the tail
/// follow. Start and chain grow linearly in i but for remainders, so the ends of the range are tried: i = 0, and m-1-qK
/// for the least and the largest q. Chains from i and from i + 1 are as long where the remainder is not 0, and then one
/// of them is longer by what crossing costs; both bound the same last F. Where forwards and backwards may overlap, F(i)
/// starts after i forwards, and after the first B can start and what freed enough bytes, and crossing costs nothing.
void memoryChain(const View &view, Best &best) {
  const Wide m = view.microbatches;
  for (size_t s = 0; s < view.stages.size(); ++s) {
    const StageView &stage = view.stages[s];
    const RankView &rank = view.ranks[view.rankOf[s]];
    const Wide held = stage.a + stage.o;
    if (held == 0 || rank.capacity >= m * held)
      continue;
    const Wide k = rank.capacity / held;
    const Wide step = stage.roundTrip() + leastToFree(stage, (k + 1) * held - rank.capacity, m) - stage.b;
    const Crossing crossing = k > 1 && view.inOrder && !view.overlaps ? crossingOf(view, s, step) : Crossing();
    const Wide idle = positive(stage.headB - stage.headF - k * stage.f);
    const auto lastForward = [&](Wide i) {
      const Wide freed = i < k ? 0 : leastToFree(stage, (i + 1) * held - rank.capacity, m);
      const Wide start = i < k           ? i * stage.f
                         : view.overlaps ? std::max(i * stage.f, stage.headB - stage.headF + freed)
                                         : idle + i * stage.f + freed;
      const Wide steps = (m - 1 - i) / k, others = (m - 1 - i) % k;
      return start + steps * step + others * stage.f + (others > 0 ? crossing.cost(steps) : 0);
    };
    Wide longest = lastForward(0);
    const Wide most = (m - 1) / k;
    for (Wide q : {most - 1, most}) // with one forward to spare
      if (k > 1 && q > 0 && m - 2 - q * k >= 0)
        longest = std::max(longest, lastForward(m - 2 - q * k));
    for (Wide q : {Wide(0), Wide(1), most - 1, most})
      if (q >= 0 && q <= most)
        longest = std::max(longest, lastForward(m - 1 - q * k));
    longest += stage.headF + stage.roundTrip();
    best.offer(longest + stage.tail, longest - stage.start + stage.rankTail, Argument::MemoryChain);
  }
}

namespace {

/// What a ramp costs: live bytes that climb to `most` from `least` at up to size / time bytes a unit of time leave an
/// area of (most - least)^2 time / (2 size) unused, which is this long at `most` bytes.
struct Ramp {
  Wide least = 0;          // bytes that are there at once
  Wide size = 0, time = 0; // the steepest; no size: none is

  void offer(Wide newSize, Wide newTime) {
    least = std::max(least, newSize);
    if (newSize > 0 && (size == 0 || newSize * time > size * newTime)) {
      size = newSize;
      time = newTime;
    }
  }
  Wide length(Wide most) const { return size == 0 || most <= least ? 0 : ceilDivide((most - least) * time, size); }
  Wide unused(Wide most) const {
    return size == 0 || most <= least ? 0 : (most - least) * time / (2 * size) * (most - least) / most;
  }
};

} // namespace

/// LB7, area: each microbatch of a stage holds a for R and o for R + w at least, so the integral of a rank's live bytes
/// over its time D before the optimizer is A = m Σ (a R + o (R + w)) at least; and it never exceeds capacity × D.
/// Sharper: x after the rank's first start only the forwards begun by then are live, all but the latest of them done
/// within x, so no more than the largest a + o and x times the largest (a + o) / f. Likewise y before the end no more
/// is live than what B and W free from then on, all but the earliest of them begun by then: the largest of a and o and
/// y times the largest a / b or o / w. Between these ramps the capacity stands. If the area without ramps takes as long
/// as both ramps, then so does D (what fits into less time is less than A), so they do not overlap, and what both leave
/// unused adds up.
void area(const View &view, Best &best) {
  for (const RankView &rank : view.ranks) {
    Wide all = 0;
    for (int32_t s : rank.stages)
      all += (view.stages[s].a + view.stages[s].o) * view.microbatches;
    const Wide most = std::min(rank.capacity, all);
    if (rank.capacity == kNever || most == 0)
      continue;
    // A round trip is cut to what a step may take, and whole and remaining parts are multiplied apart, to stay in 128
    // bits.
    Wide time = 0;
    Ramp up, down;
    for (int32_t s : rank.stages) {
      const StageView &stage = view.stages[s];
      const Wide held = std::min<Wide>(stage.roundTrip(), limits::kTime);
      const Wide one = stage.a * held + stage.o * (held + stage.w);
      time += one / most * view.microbatches + one % most * view.microbatches / most;
      up.offer(stage.a + stage.o, stage.f);
      down.offer(stage.a, stage.b);
      down.offer(stage.o, stage.w);
    }
    if (time >= up.length(most) + down.length(most))
      time += up.unused(most) + down.unused(most);
    best.offer(view.stages[rank.first].headF + time + rank.optimizer, time + rank.optimizer, Argument::Area);
  }
}

} // namespace pipec::schedule::bounds
