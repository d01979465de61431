// Lower bounds, each argument a function under its proof. All rest on the same facts: a rank runs one pass at a time,
// microbatches of a stage and kind run in order (no loss: exchanging equals changes no time and no count), a rank holds
// its memory limit at most, less static memory, workspace and one buffer in each ring, in activations and contexts, and
// its optimizer comes last. Sums are of 128 bits, so nothing overflows.
//
// Names: of stage s, f, b, w are the costs (fused: b the backward, w = 0), a and o the bytes that B and W free (fused:
// a both, o = 0). headF(s) and headB(s): the earliest starts of its first F and B by data alone. tail(s): what must
// follow the end of its last B, up to the last optimizer; rankTail(s): the same counting only what ends on its own
// rank. R(s) = headB(s) - headF(s) + b: least time from the start of an F to the end of its B. Of rank r, first(r) and
// last(r) are its lowest and highest stage: its first letter is always F of first(r), since every other letter needs
// it, its first backward is B of last(r), and its last is B of first(r). Where pipelines run side by side (copies),
// this holds of each copy by itself, and of the rank what is least over them.
#include "compiler/schedule/Bounds.h"

#include "runtime/plan/Limits.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pipec::schedule {

namespace {

using Wide = __int128;
/// More than any time or size here, with room to add.
constexpr Wide kNever = Wide(1) << 120;

struct StageView {
  Wide f, b, w, a, o;
  Wide headF, headB, tail, rankTail;
  bool isFirst; // of its copy on its rank
  Wide start;   // headF of that first one
  Wide upTo; // all backward hops and backwards of the stages before it: from the last B's end here to that of stage 0

  Wide roundTrip() const { return headB - headF + b; }
};

struct RankView {
  int32_t first;          // of the copies on it, that of the one which can begin first
  Wide reach;             // from its first start to that of its first B
  Wide tail;              // after the end of its last B
  Wide work, optimizer;   // work includes the optimizer
  Wide forwards, weights; // of all microbatches
  Wide capacity;          // kNever without a limit
  Wide warmUp;            // most F work before the first B
  Wide pending;           // most W work after the last B
};

struct View {
  Wide microbatches;
  bool inOrder; // one copy, and microbatches are free to come back in the order in which they went
  std::vector<StageView> stages;
  std::vector<RankView> ranks;
  std::vector<int32_t> rankOf;
};

struct Item {
  Wide size, value;
};

Wide positive(Wide value) { return std::max<Wide>(value, 0); }

Wide ceilDivide(Wide value, Wide by) { return (value + by - 1) / by; }

/// No choice of up to `count` of each item within `capacity` is worth more: the knapsack's linear relaxation, greedy by
/// density. The capacity is first rounded down to a multiple of the sizes' common divisor, which loses nothing and
/// makes the relaxation exact for equal sizes.
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

/// The least backward and weight time that frees `bytes` with at most `count` B: a B alone frees a for b, with its W a
/// + o for b + w. Tries up to 63 of the one with the worse rate beside as many of the other as needed; from 64 on it
/// takes the better rate for the rest, rounded down. So it is never more than the exact least, and mostly that.
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
  const bool fused = problem.backward == BackwardMode::Fused;
  const auto count = static_cast<int32_t>(problem.stages.size());
  View view{problem.microbatches, problem.copies == 1 && problem.slices == 1, {}, {}, problem.rankOf};
  for (const Stage &stage : problem.stages)
    view.stages.push_back({.f = stage.forward,
                           .b = fused ? stage.backward : stage.backwardInput,
                           .w = fused ? 0 : stage.backwardWeight,
                           .a = fused ? Wide(stage.activation) + stage.context : Wide(stage.activation),
                           .o = fused ? 0 : stage.context,
                           .headF = 0,
                           .headB = 0,
                           .tail = 0,
                           .rankTail = 0,
                           .isFirst = false,
                           .start = 0,
                           .upTo = 0});
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
    stages[s].headB = end.headF + end.f + end.upTo - stages[s].upTo + end.b - stages[s].b;
  }

  const std::vector<__int128> always = heldAlways(problem, 1);
  for (const std::vector<int32_t> &mine : problem.stagesByRank()) {
    RankView rank{mine.front(), kNever, kNever, 0, 0, 0, 0, kNever, 0, 0};
    Wide leastHeld = kNever; // of what its last B may hold
    for (size_t i = 0; i != mine.size(); ++i) {
      StageView &stage = stages[mine[i]];
      stage.isFirst = i == 0 || mine[i] / ofCopy != mine[i - 1] / ofCopy;
      stage.start = stage.isFirst ? stage.headF : stages[mine[i - 1]].start;
      if (stage.isFirst)
        leastHeld = std::min(leastHeld, stage.a);
      if (stage.start < stages[rank.first].headF)
        rank.first = mine[i];
      rank.reach = std::min(rank.reach, stage.headB - stage.start); // of a copy, that of its last stage
    }
    for (int32_t s : mine) {
      rank.optimizer += problem.stages[s].optimizer;
      rank.forwards += stages[s].f * problem.microbatches;
      rank.weights += stages[s].w * problem.microbatches;
      rank.work += (stages[s].f + stages[s].b + stages[s].w) * problem.microbatches + problem.stages[s].optimizer;
    }
    rank.warmUp = rank.forwards;
    rank.pending = rank.weights;
    const auto index = view.ranks.size();
    if (problem.memoryLimit > 0) {
      rank.capacity = positive(problem.memoryLimit - always[index]);
      // A limit below one microbatch of a stage fits no order; raised to that, everything below stays defined.
      for (int32_t s : mine)
        rank.capacity = std::max(rank.capacity, stages[s].a + stages[s].o);
      // Before the first B nothing is freed, so every F started is held at once. While the last B runs, its activation
      // is held, and the context of every W still to come.
      std::vector<Item> held, owed;
      for (int32_t s : mine) {
        held.push_back({stages[s].a + stages[s].o, stages[s].f});
        owed.push_back({stages[s].o, stages[s].w});
      }
      rank.warmUp = knapsack(held, problem.microbatches, rank.capacity);
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

/// The larger of each side, with its argument; the first of equals stays.
struct Best {
  Wide makespan = 0, span = 0;
  Argument makespanArgument = Argument::None, spanArgument = Argument::None;

  void offer(Wide newMakespan, Wide newSpan, Argument argument) {
    if (newMakespan > makespan) {
      makespan = newMakespan;
      makespanArgument = argument;
    }
    if (newSpan > span) {
      span = newSpan;
      spanArgument = argument;
    }
  }
};

/// LB1, critical path. The m forwards of a stage follow each other from headF on; the last then goes down to the last
/// stage and back, R - f, and the tail follows. Likewise its m backwards from headB on. For the span, the same counted
/// from the rank's first start, F of first(r), which lies headF(s) - headF(first) before the first F of s at least, to
/// the rank's own end.
void criticalPath(const View &view, Best &best) {
  for (size_t s = 0; s < view.stages.size(); ++s) {
    const StageView &stage = view.stages[s];
    const Wide forwards = stage.headF + view.microbatches * stage.f + stage.roundTrip() - stage.f;
    const Wide backwards = stage.headB + view.microbatches * stage.b;
    const Wide longest = std::max(forwards, backwards);
    best.offer(longest + stage.tail, longest - stage.start + stage.rankTail, Argument::CriticalPath);
  }
}

/// Time on a rank, given the most F work before its first B and the most W work after its last. Let t0, t1, t2 be its
/// first start, the start of its first B, the end of its last. t1 - t0 >= headB(last) - headF(first), by data, and t1 -
/// t0 is no less than the F work done in it, so beyond that work it holds `idle` at least. After t2 come W and
/// optimizer only: the optimizer and the pending W at most, while tail(first) passes at least.
Wide idleBeforeBackward(const RankView &rank, Wide warmUp) { return positive(rank.reach - warmUp); }

Wide makespanOf(const View &view, const RankView &rank, Wide warmUp, Wide pending) {
  const StageView &first = view.stages[rank.first];
  return first.headF + idleBeforeBackward(rank, warmUp) + rank.work + positive(rank.tail - rank.optimizer - pending);
}

/// LB2, work and idle that data alone forces: even all of a rank's forwards may end before its first B can start, and
/// even all of its W may stand after its last B and end before the step does.
void work(const View &view, Best &best) {
  for (const RankView &rank : view.ranks)
    best.offer(makespanOf(view, rank, rank.forwards, rank.weights), rank.work + idleBeforeBackward(rank, rank.forwards),
               Argument::Work);
}

/// LB2 and LB10 under a memory limit: only what fits is run before the first B, and only what fits is owed after the
/// last. On the rank of stage 0 this is the warm-up law: a full way down and back, less what memory lets it run
/// meanwhile.
void warmUp(const View &view, Best &best) {
  for (const RankView &rank : view.ranks)
    best.offer(makespanOf(view, rank, rank.warmUp, rank.pending), rank.work + idleBeforeBackward(rank, rank.warmUp),
               Argument::WarmUp);
}

/// Last device, for the span: two ranks i, j with first(i) < first(j). From i's first start to j's end pass the way of
/// a microbatch from first(i) to first(j), then all of j's time, G = work + idle. From j's first start to i's end pass
/// G less what may follow j's last B, then the way of that B to first(i), its W, and i's optimizer. The two are a cycle
/// of the matrix of longest paths, so half their sum bounds the largest mean. And from i's first start to its own end
/// pass the way down to j, G less what may follow j's last B, and the way back: a cycle by itself. Ranks are looked at
/// by first stage, keeping the best i of each kind.
void lastDevice(const View &view, Best &best) {
  std::vector<int32_t> order(view.ranks.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t x, int32_t y) { return view.ranks[x].first < view.ranks[y].first; });
  Wide upstream = -kNever, around = -kNever;
  for (int32_t r : order) {
    const RankView &rank = view.ranks[r];
    const StageView &first = view.stages[rank.first];
    const Wide time = rank.work + idleBeforeBackward(rank, rank.warmUp);
    const Wide cycle = upstream + first.headF + first.upTo + 2 * time - rank.optimizer - rank.pending;
    around = std::max(around, first.rankTail - first.headF - first.upTo);
    best.offer(0, cycle > 0 ? ceilDivide(cycle, 2) : 0, Argument::LastDevice);
    best.offer(0, around + first.headF + first.upTo + time - rank.optimizer - rank.pending, Argument::LastDevice);
    upstream = std::max(upstream, first.w + rank.optimizer - first.headF - first.upTo);
  }
}

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

/// LB6, memory chain, of one stage s that can hold K < m microbatches (what else its rank holds only makes it worse).
/// F(j+K) starts with K + 1 of the microbatches from j on begun, so these have freed (K+1)(a+o) - capacity bytes: B(j)
/// among others, which ends R after the start of F(j) at least, and after it the rest of what frees that much. Hence
/// F(j+K) starts R + d after F(j), d the least such rest. And F(i), i >= K, starts after i forwards, after what freed
/// enough bytes for i + 1, and after the idle time before the first B of s, when at most K forwards of s can run. So
/// for any i, start(i) + floor((m-1-i)/K)(R+d) + ((m-1-i) mod K) f bounds the start of the last F, which R and the tail
/// follow. Start and chain grow linearly in i but for remainders, so the ends of the range are tried: i = 0, and m-1-qK
/// for the least and the largest q. Chains from i and from i + 1 are as long where the remainder is not 0, and then one
/// of them is longer by what crossing costs; both bound the same last F.
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
    const Crossing crossing = k > 1 && view.inOrder ? crossingOf(view, s, step) : Crossing();
    const Wide idle = positive(stage.headB - stage.headF - k * stage.f);
    const auto lastForward = [&](Wide i) {
      const Wide start =
          i < k ? i * stage.f : idle + i * stage.f + leastToFree(stage, (i + 1) * held - rank.capacity, m);
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

/// LB7, area: each microbatch of a stage holds a for R and o for R + w at least, so the integral of a rank's live bytes
/// over its time D before the optimizer is A = m Σ (a R + o (R + w)) at least; and it never exceeds capacity × D.
/// Sharper: x after the rank's first start only the forwards begun by then are live, all but the latest of them done
/// within x, so no more than the largest a + o and x times the largest (a + o) / f. Likewise y before the end no more
/// is live than what B and W free from then on, all but the earliest of them begun by then: the largest of a and o and
/// y times the largest a / b or o / w. Between these ramps the capacity stands. If the area without ramps takes as long
/// as both ramps, then so does D (what fits into less time is less than A), so they do not overlap, and what both leave
/// unused adds up.
void area(const View &view, const Problem &problem, Best &best) {
  const std::vector<std::vector<int32_t>> stagesByRank = problem.stagesByRank();
  for (size_t r = 0; r < view.ranks.size(); ++r) {
    const RankView &rank = view.ranks[r];
    Wide all = 0;
    for (int32_t s : stagesByRank[r])
      all += (view.stages[s].a + view.stages[s].o) * view.microbatches;
    const Wide most = std::min(rank.capacity, all);
    if (rank.capacity == kNever || most == 0)
      continue;
    // A round trip is cut to what a step may take, and whole and remaining parts are multiplied apart, to stay in 128
    // bits.
    Wide time = 0;
    Ramp up, down;
    for (int32_t s : stagesByRank[r]) {
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

Time saturated(Wide value) {
  return value > std::numeric_limits<Time>::max() ? std::numeric_limits<Time>::max() : static_cast<Time>(value);
}

/// What all ranks, or two, do together before their optimizers, each rank on its own: what is true of optimizers longer
/// by as much is true of it; that ranks wait for each other besides only adds time.
void addReductions(Problem &problem) {
  const std::vector<std::vector<int32_t>> stages = problem.stagesByRank();
  for (int32_t r = 0; r != problem.ranks; ++r)
    problem.stages[size_t(stages[size_t(r)].front())].optimizer +=
        copySumTime(problem, r) + problem.globalNorm.value_or(0);
}

} // namespace

Bounded lowerBounds(const Problem &given) {
  Problem problem = given;
  addReductions(problem);
  const View view = makeView(problem);
  Best best;
  criticalPath(view, best);
  work(view, best);
  warmUp(view, best);
  if (problem.memoryLimit > 0) {
    memoryChain(view, best);
    area(view, problem, best);
  }
  if (problem.copies == 1) // with more, a rank's first start is at no one stage
    lastDevice(view, best);
  // Steps that follow each other freely take no longer than a step alone, so a bound of the span is one of the
  // makespan.
  best.offer(best.span, 0, best.spanArgument);
  // Passes that start as early as they can start after whole sums of these.
  Time unit = problem.globalNorm.value_or(0);
  for (int32_t stage = 0; stage < int32_t(problem.stages.size()); ++stage) {
    const Stage &each = problem.stages[size_t(stage)];
    for (const Time time : {each.forward, problem.backward == BackwardMode::Fused ? each.backward : each.backwardInput,
                            problem.backward == BackwardMode::Fused ? 0 : each.backwardWeight, each.optimizer})
      unit = std::gcd(unit, time);
    if (stage > 0)
      unit = std::gcd(std::gcd(unit, problem.handOver(stage - 1, stage)), problem.handOver(stage, stage - 1));
  }
  if (unit > 0)
    best.makespan = ceilDivide(best.makespan, unit) * unit;
  return {saturated(best.makespan), saturated(best.span), best.makespanArgument, best.spanArgument};
}

} // namespace pipec::schedule
