// Lower bounds. Each argument is a function under its proof. All proofs rest on four facts. A rank runs one pass at a
// time. Microbatches of a stage and kind run in order; nothing is lost by this, since exchanging equal passes changes
// no time and no count. A rank holds in activations and contexts at most its memory limit less static memory, workspace
// and one buffer in each ring. A rank's optimizers come last. Sums have 128 bits, so nothing overflows.
//
// Names for a stage s:
// - f, b, w: costs (fused: b is the backward, w = 0).
// - a, o: bytes that B and W free (fused: a is both, o = 0).
// - r: cost of R, if the stage is recomputed. R comes between F and B. F then holds only an input of a bytes. The input
//   counts as held until B ends, since R replaces it with at least as many bytes. Leaving R out of an order gives an
//   order of a problem without R that takes no longer; so the arguments leave R out, except where R proves more.
// - headF(s), headB(s): earliest starts of the first F and the first B by data alone.
// - tail(s): what must follow the end of the last B, up to the last optimizer. rankTail(s): the same for the end of its
//   own rank only.
// - R(s) = headB(s) - headF(s) + b: least time from the start of an F to the end of its B.
//
// For a rank r, first(r) and last(r) are its lowest and highest stage. The rank's first letter is always F of first(r),
// since every other letter needs that F. Its first backward is B of last(r), and its last backward is B of first(r). If
// pipelines run side by side (copies), this holds for each copy, and the rank takes the least over its copies.
#include "compiler/schedule/bounds/BoundsMemory.h"
#include "compiler/schedule/bounds/BoundsPairs.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pipec::schedule {

namespace bounds {

namespace {

/// LB1, critical path. The m forwards of a stage follow each other from headF on; the last of them then goes to the
/// last stage and back (R - f), and the tail follows. The m backwards follow each other from headB on in the same way.
/// For the span, time counts from the rank's first start to the rank's own end. The first start is F of first(r), at
/// least headF(s) - headF(first) before the first F of s.
void criticalPath(const View &view, Best &best) {
  for (size_t s = 0; s < view.stages.size(); ++s) {
    const StageView &stage = view.stages[s];
    const Wide forwards = stage.headF + view.microbatches * stage.f + stage.roundTrip() - stage.f;
    const Wide backwards = stage.headB + view.microbatches * stage.b;
    const Wide longest = std::max(forwards, backwards);
    best.offer(longest + stage.tail, longest - stage.start + stage.rankTail, Argument::CriticalPath);
  }
}

/// Idle time of a rank, given the most F work before its first B. Let t0, t1, t2 be the rank's first start, the start
/// of its first B and the end of its last B. By data, t1 - t0 >= headB(last) - headF(first). Only F work runs between
/// t0 and t1, so the rank idles there for at least the difference. After t2 only W and the optimizer run: at most the
/// optimizer and the pending W, while at least tail(first) passes.
Wide idleBeforeBackward(const RankView &rank, Wide warmUp) { return positive(rank.reach - warmUp); }

/// Work plus idle time of a rank. R adds work, and part of the R work may run before the first B: `again` is the most F
/// and R work before the first B.
Wide workAndIdle(const RankView &rank, Wide warmUp, Wide again) {
  return rank.work + std::max(idleBeforeBackward(rank, warmUp), rank.again + idleBeforeBackward(rank, again));
}

Wide makespanOf(const View &view, const RankView &rank, Wide busy, Wide pending) {
  const StageView &first = view.stages[rank.first];
  return first.headF + busy + positive(rank.tail - rank.optimizer - pending);
}

/// LB2, work and the idle time that data alone forces. At best, all forwards of a rank end before its first B can
/// start, and all W run after its last B and end before the step does.
void work(const View &view, Best &best) {
  for (const RankView &rank : view.ranks) {
    const Wide busy = workAndIdle(rank, rank.forwards, rank.forwards + rank.again);
    best.offer(makespanOf(view, rank, busy, rank.weights), busy, Argument::Work);
  }
}

/// LB2 and LB10 under a memory limit: only F that fit into memory run before the first B, and only W with contexts that
/// fit are pending after the last B. On the rank of stage 0 this is the warm-up law: the full way down and back, less
/// the work that memory allows meanwhile.
void warmUp(const View &view, Best &best) {
  for (const RankView &rank : view.ranks) {
    const Wide busy = workAndIdle(rank, rank.warmUp, rank.warmUpAgain);
    best.offer(makespanOf(view, rank, busy, rank.pending), busy, Argument::WarmUp);
  }
}

/// Last device, for the span. Take ranks i and j with first(i) < first(j), and let G = work + idle be j's time. From
/// i's first start to j's end, a microbatch goes from first(i) to first(j), and then G passes. From j's first start to
/// i's end pass G less what may follow j's last B, the way of that B back to first(i), its W there, and i's optimizer.
/// These two paths form a cycle of the matrix of longest paths, so half their sum is a lower bound of the largest cycle
/// mean. A second cycle goes from i's first start to i's own end: the way down to j, G less what may follow j's last B,
/// and the way back. The loop visits the ranks j by first stage, and keeps the best i so far for each of the two
/// cycles.
void lastDevice(const View &view, Best &best) {
  Wide upstream = -kNever, around = -kNever;
  for (const RankView *each : byFirstStage(view)) {
    const RankView &rank = *each;
    const StageView &first = view.stages[rank.first];
    const Wide time = workAndIdle(rank, rank.warmUp, rank.warmUpAgain);
    const Wide cycle = upstream + first.headF + first.upTo + 2 * time - rank.optimizer - rank.pending;
    around = std::max(around, aroundOf(view, rank));
    best.offer(0, cycle > 0 ? ceilDivide(cycle, 2) : 0, Argument::LastDevice);
    best.offer(0, around + first.headF + first.upTo + time - rank.optimizer - rank.pending, Argument::LastDevice);
    upstream = std::max(upstream, first.w + rank.optimizer - first.headF - first.upTo);
  }
}

Time saturated(Wide value) {
  return value > std::numeric_limits<Time>::max() ? std::numeric_limits<Time>::max() : static_cast<Time>(value);
}

/// All-reduces before the optimizers, over all ranks or over two, count as part of each rank's optimizer. In reality
/// ranks also wait for each other there, which only adds time. So a bound with the longer optimizers holds for the real
/// problem.
void addReductions(Problem &problem) {
  const std::vector<std::vector<int32_t>> stages = problem.stagesByRank();
  for (int32_t r = 0; r != problem.ranks; ++r)
    problem.stages[size_t(stages[size_t(r)].front())].optimizer +=
        copySumTime(problem, r) + problem.globalNorm.value_or(0);
}

/// Shortens all passes so that pairs need no special treatment. An overlapped pair may take less than its F and its
/// backward one after the other. Let x <= 1 be the least ratio of the two over all pairs, and make every F, B and W x
/// times as long, rounded down. Then any order may run a pair's F and after it its backward instead of the pair: they
/// start no earlier and end no later than the pair, so no data comes later and no more memory is held. So a bound for
/// orders without pairs and with the shorter passes holds for all orders. Returns false if no pair is shorter.
bool shorten(Problem &problem) {
  Wide part = 1, whole = 1;
  if (std::none_of(problem.stages.begin(), problem.stages.end(),
                   [](const Stage &stage) { return stage.overlapped.has_value(); }))
    return false;
  for (Stage &stage : problem.stages) { // R is not part of a pair
    for (Time *time : {&stage.backwardInput, &stage.backward})
      *time -= std::min(*time, stage.recompute);
    stage.recompute = 0;
  }
  for (const std::vector<int32_t> &mine : problem.stagesByRank())
    for (const int32_t f : mine)
      for (const int32_t b : mine) {
        const Stage &stage = problem.stages[size_t(f)];
        const Wide apart = Wide(stage.forward) + problem.stages[size_t(b)].backward;
        if (stage.overlapped && *stage.overlapped * whole < part * apart) {
          part = *stage.overlapped;
          whole = apart;
        }
      }
  for (Stage &stage : problem.stages)
    for (Time *time : {&stage.forward, &stage.backwardInput, &stage.backwardWeight, &stage.backward})
      *time = static_cast<Time>(*time * part / whole);
  return part != whole;
}

Best boundsOf(const Problem &problem) {
  const View view = makeView(problem);
  Best best;
  criticalPath(view, best);
  work(view, best);
  if (problem.copies == 1) // with copies, a rank's first start is not at one known stage
    lastDevice(view, best);
  warmUp(view, best);
  if (problem.memoryLimit > 0) {
    memoryChain(view, best);
    area(view, best);
    if (problem.backwardGroup == 1) {
      windows(view, best);
      returns(view, best);
      crossings(view, best);
    }
  }
  if (problem.memoryLimit > 0 && !(problem.backwardGroup == 1 && words(view, best)))
    prices(view, best); // starts from the best bound of the other arguments
  return best;
}

/// The greatest common divisor of all times, in picoseconds. Passes that start as early as possible start at multiples
/// of this time, if no pass is cut.
Time unitOf(const Problem &problem) {
  Time unit = problem.globalNorm.value_or(0);
  for (int32_t stage = 0; stage < int32_t(problem.stages.size()); ++stage) {
    const Stage &each = problem.stages[size_t(stage)];
    for (const Time time :
         {each.forward, problem.backwardTime(each), problem.weightTime(each), each.optimizer, each.recompute})
      unit = std::gcd(unit, time);
    unit = std::gcd(unit, each.overlapped.value_or(0));
    if (problem.mixed)
      unit = std::gcd(unit, each.backward);
    if (stage > 0)
      unit = std::gcd(std::gcd(unit, problem.handOver(stage - 1, stage)), problem.handOver(stage, stage - 1));
  }
  return unit;
}

} // namespace
} // namespace bounds

Bounded lowerBounds(const Problem &given) {
  using namespace bounds;
  Problem problem = given;
  addReductions(problem);
  Problem shorter = problem;
  const bool overlaps = shorten(shorter);
  Best best = boundsOf(shorter);
  if (overlaps) { // arguments about data, or about one kind of pass on a rank, use each pass's whole time
    View whole = makeView(problem);
    whole.overlaps = true;
    criticalPath(whole, best);
    if (problem.memoryLimit > 0) {
      memoryChain(whole, best);
      area(whole, best);
    }
    apartAtTheEnds(problem, whole, best);
    pairsAndArea(problem, whole, best);
  }
  // Steps that follow each other freely take, per step, no longer than a step alone. So a bound of the span is also a
  // bound of the makespan.
  best.offer(best.span, 0, best.spanArgument);
  if (const Time unit = problem.cuts ? 0 : unitOf(problem); unit > 0)
    best.makespan = ceilDivide(best.makespan, unit) * unit;
  return {saturated(best.makespan), saturated(best.span), best.makespanArgument, best.spanArgument};
}

LeastTimes leastTimes(const LeastProblem &problem) {
  const Bounded bounds = lowerBounds(problem.problem());
  return {plan::LeastTime::proven(bounds.makespan), plan::LeastTime::proven(bounds.span), bounds.makespanArgument,
          bounds.spanArgument};
}

static LeastTimes chosenOf(const LeastTimes &one, const LeastTimes &other, bool othersMakespan, bool othersSpan) {
  const LeastTimes &makespan = othersMakespan ? other : one, &span = othersSpan ? other : one;
  return {makespan.makespan, span.span, makespan.makespanArgument, span.spanArgument};
}

LeastTimes leastOf(const LeastTimes &one, const LeastTimes &other) {
  return chosenOf(one, other, other.makespan < one.makespan, other.span < one.span);
}

LeastTimes bestOf(const LeastTimes &one, const LeastTimes &other) {
  return chosenOf(one, other, other.makespan > one.makespan, other.span > one.span);
}

LeastTimes leastTimes(const LeastCases &cases) {
  if (cases.empty())
    return {};
  LeastTimes least = leastTimes(cases.front());
  for (size_t i = 1; i < cases.size(); ++i)
    least = leastOf(least, leastTimes(cases[i]));
  return least;
}

LeastTimes leastTimes(const LeastWays &ways) {
  LeastTimes best;
  for (const LeastCases &cases : ways)
    best = bestOf(best, leastTimes(cases));
  return best;
}

} // namespace pipec::schedule
