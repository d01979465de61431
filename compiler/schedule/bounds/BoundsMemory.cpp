// The arguments from memory alone: the chain through what must be freed, and the area under what is held.
#include "compiler/schedule/bounds/BoundsMemory.h"

#include "runtime/plan/Limits.h"

#include <algorithm>

namespace pipec::schedule::bounds {

/// LB6, memory chain, of one stage s that can hold K < m microbatches (what else its rank holds only makes it worse).
/// When F(j+K) starts, K + 1 microbatches from j on have begun, so they have freed (K+1)(a+o) - capacity bytes. B(j) is
/// among what frees these; it ends at least R after the start of F(j). After B(j) comes the rest of what frees that
/// much. Hence F(j+K) starts R + d after F(j), d the least time of such a rest. And F(i), i >= K, starts after i
/// forwards, after what freed enough bytes for i + 1, and after the idle time before the first B of s, when at most K
/// forwards of s can run. So for any i, start(i) + floor((m-1-i)/K)(R+d) + ((m-1-i) mod K) f bounds the start of the
/// last F, which R and the tail follow. Start and chain grow linearly in i but for remainders, so the ends of the range
/// are tried: i = 0, and m-1-qK for the least and the largest q. Where forwards and backwards may overlap, F(i) starts
/// after i forwards, and after the first B can start and what freed enough bytes.
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
    const Wide idle = positive(stage.headB - stage.headF - k * stage.f);
    const auto lastForward = [&](Wide i) {
      const Wide freed = i < k ? 0 : leastToFree(stage, (i + 1) * held - rank.capacity, m);
      const Wide start = i < k           ? i * stage.f
                         : view.overlaps ? std::max(i * stage.f, stage.headB - stage.headF + freed)
                                         : idle + i * stage.f + freed;
      return start + (m - 1 - i) / k * step + (m - 1 - i) % k * stage.f;
    };
    Wide longest = lastForward(0);
    const Wide most = (m - 1) / k;
    for (Wide q : {Wide(0), Wide(1), most - 1, most})
      if (q >= 0 && q <= most)
        longest = std::max(longest, lastForward(m - 1 - q * k));
    longest += stage.headF + stage.roundTrip();
    best.offer(longest + stage.tail, longest - stage.start + stage.rankTail, Argument::MemoryChain);
  }
}

namespace {

/// What a ramp costs. Live bytes that climb from `least` to `most` at no more than size / time bytes a unit of time
/// leave an area of (most - least)^2 time / (2 size) unused; divided by `most` it is a time.
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
/// Sharper: at x after the rank's first start, only forwards begun by then are live, and all but the latest of them
/// were done within x. So no more is live than the largest a + o, plus x times the largest (a + o) / f. Likewise at y
/// before the end no more is live than what B and W free from then on, of which all but the earliest begin within y:
/// the largest of a and o, plus y times the largest a / b or o / w. Between these two ramps the capacity bounds what is
/// live. If the area without ramps takes as long as both ramps, then so does D (what fits into less time is less than
/// A), so they do not overlap, and what both leave unused adds up.
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
