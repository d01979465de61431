// Lower bounds, each argument a function under its proof. All rest on the same facts: a rank runs one pass at a time,
// microbatches of a stage and kind run in order (no loss: exchanging equals changes no time and no count), a rank holds
// its memory limit at most, less static memory, workspace and one buffer in each ring, in activations and contexts, and
// a rank's optimizers come last. Sums are of 128 bits, so nothing overflows.
//
// Names: of stage s, f, b, w are the costs (fused: b the backward, w = 0), a and o the bytes that B and W free (fused:
// a both, o = 0). Where a stage is recomputed, r is what its R takes; R comes between F and B, and what F holds is an
// input of a bytes, which counts as held until B ends, since R puts no less in its place. Without R any order is one of
// a problem that has none, and takes no longer; so arguments leave R out but where they say more. headF(s) and
// headB(s): the earliest starts of its first F and B by data alone. tail(s): what must follow the end of its last B, up
// to the last optimizer; rankTail(s): the same counting only what ends on its own rank. R(s) = headB(s) - headF(s) + b:
// least time from the start of an F to the end of its B. Of rank r, first(r) and last(r) are its lowest and highest
// stage: its first letter is always F of first(r), since every other letter needs it, its first backward is B of
// last(r), and its last is B of first(r). Where pipelines run side by side (copies), this holds of each copy by itself,
// and of the rank what is least over them.
#include "compiler/schedule/bounds/BoundsMemory.h"
#include "compiler/schedule/bounds/BoundsPairs.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pipec::schedule {

namespace bounds {

namespace {

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

/// Work and idle of a rank. With R there is more work, some of which may be done before the first B too: `again` is the
/// most F and R work then.
Wide workAndIdle(const RankView &rank, Wide warmUp, Wide again) {
  return rank.work + std::max(idleBeforeBackward(rank, warmUp), rank.again + idleBeforeBackward(rank, again));
}

Wide makespanOf(const View &view, const RankView &rank, Wide busy, Wide pending) {
  const StageView &first = view.stages[rank.first];
  return first.headF + busy + positive(rank.tail - rank.optimizer - pending);
}

/// LB2, work and idle that data alone forces: even all of a rank's forwards may end before its first B can start, and
/// even all of its W may stand after its last B and end before the step does.
void work(const View &view, Best &best) {
  for (const RankView &rank : view.ranks) {
    const Wide busy = workAndIdle(rank, rank.forwards, rank.forwards + rank.again);
    best.offer(makespanOf(view, rank, busy, rank.weights), busy, Argument::Work);
  }
}

/// LB2 and LB10 under a memory limit: only what fits is run before the first B, and only what fits is owed after the
/// last. On the rank of stage 0 this is the warm-up law: a full way down and back, less what memory lets it run
/// meanwhile.
void warmUp(const View &view, Best &best) {
  for (const RankView &rank : view.ranks) {
    const Wide busy = workAndIdle(rank, rank.warmUp, rank.warmUpAgain);
    best.offer(makespanOf(view, rank, busy, rank.pending), busy, Argument::WarmUp);
  }
}

/// Last device, for the span. Take ranks i and j with first(i) < first(j), and let G = work + idle be j's time. From
/// i's first start to j's end pass a microbatch's way from first(i) to first(j), then G. From j's first start to i's
/// end pass G less what may follow j's last B, the way of that B back to first(i), its W there, and i's optimizer.
/// These two paths are a cycle of the matrix of longest paths, so half their sum bounds the largest cycle mean. And
/// from i's first start to i's own end pass the way down to j, G less what may follow j's last B, and the way back: a
/// cycle by itself. The loop goes through j by first stage, and keeps the best i before it for each kind of cycle.
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

/// All-reduces before the optimizers, of all ranks or of two, count as part of each rank's optimizer. That ranks wait
/// for each other there only adds time, so what bounds the longer optimizers bounds the real problem.
void addReductions(Problem &problem) {
  const std::vector<std::vector<int32_t>> stages = problem.stagesByRank();
  for (int32_t r = 0; r != problem.ranks; ++r)
    problem.stages[size_t(stages[size_t(r)].front())].optimizer +=
        copySumTime(problem, r) + problem.globalNorm.value_or(0);
}

/// An overlapped pair may take less than its F and its backward one after the other. Let x <= 1 be the least ratio of
/// the two over all pairs, and make every F, B and W x times as long, rounded down. Then in any order a pair can be
/// replaced by its F and, behind it, its backward: these start no earlier and end no later than the pair did, so no
/// data come later and no more memory is held. So a bound of all orders without pairs, for the shorter passes, bounds
/// all orders. False: no pair is shorter.
bool shorten(Problem &problem) {
  Wide part = 1, whole = 1;
  if (std::none_of(problem.stages.begin(), problem.stages.end(),
                   [](const Stage &stage) { return stage.overlapped.has_value(); }))
    return false;
  for (Stage &stage : problem.stages) { // no part of a pair
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
  if (problem.copies == 1) // with more, a rank's first start is at no one stage
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
    prices(view, best); // from what the others prove
  return best;
}

/// Passes that start as early as they can start after whole multiples of this, where none is cut.
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
  if (overlaps) { // what looks at data, or at one kind of pass on a rank, sees each pass at its whole time
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
  // Steps that follow each other freely take no longer than a step alone, so a bound of the span is one of the
  // makespan.
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
