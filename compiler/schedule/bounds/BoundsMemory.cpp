// The arguments from memory alone: the chain of microbatches that wait for memory, and the area, bytes held times time.
#include "compiler/schedule/bounds/BoundsMemory.h"

#include "runtime/plan/Limits.h"

#include <algorithm>

namespace pipec::schedule::bounds {

/// LB6, memory chain, for one stage s that can hold K < m microbatches (other memory of its rank makes the bound only
/// larger). When F(j+K) starts, K + 1 microbatches from j on have begun, so they have freed at least (K+1)(a+o) -
/// capacity bytes. B(j) is among the passes that free these bytes, and ends at least R after the start of F(j). The
/// rest of these passes follows B(j) and takes at least a time d. Hence F(j+K) starts at least R + d after F(j). For i
/// >= K, F(i) starts after i forwards, after the passes that freed enough bytes for i + 1 microbatches, and after the
/// idle time before the first B of s, when at most K forwards of s can run. So for any i, start(i) +
/// floor((m-1-i)/K)(R+d) + ((m-1-i) mod K) f bounds the start of the last F, and R and the tail follow. Start and chain
/// grow linearly in i except for remainders, so only the ends of the range are tried: i = 0, and m-1-qK for the
/// smallest and the largest q. Where forwards and backwards may overlap, F(i) starts after i forwards, and also after
/// the first B can start plus the time of the passes that freed enough bytes.
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

/// The time lost to a ramp. If live bytes climb from `least` to `most` at no more than size / time bytes per
/// picosecond, an area of (most - least)^2 time / (2 size) stays unused. Divided by `most`, this area is a time.
struct Ramp {
  Wide least = 0;          // bytes that may be live at once
  Wide size = 0, time = 0; // steepest climb: size bytes per time; size 0: no climb

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

/// LB7, area. Each microbatch of a stage holds a bytes for at least R, and o bytes for at least R + w. So the integral
/// of a rank's live bytes over its time D before the optimizer is at least A = m Σ (a R + o (R + w)), and at most
/// capacity × D.
///
/// The ramps at both ends sharpen this bound. At time x after the rank's first start, only forwards begun by then are
/// live, and all but the latest of them ran within x. So the live bytes are at most the largest a + o, plus x times the
/// largest (a + o) / f. At time y before the end, the live bytes are at most what B and W still free, and all but the
/// earliest of these passes begin within y. So the live bytes are at most the largest of a and o, plus y times the
/// largest a / b or o / w. Between the two ramps the capacity bounds the live bytes. If the area without ramps takes at
/// least as long as both ramps, then so does D (less time would hold less than A), so the ramps do not overlap, and the
/// unused areas add up.
void area(const View &view, Best &best) {
  for (const RankView &rank : view.ranks) {
    Wide all = 0;
    for (int32_t s : rank.stages)
      all += (view.stages[s].a + view.stages[s].o) * view.microbatches;
    const Wide most = std::min(rank.capacity, all);
    if (rank.capacity == kNever || most == 0)
      continue;
    // To stay in 128 bits, a round trip is capped at the longest step allowed, and quotients and remainders are
    // multiplied separately.
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
