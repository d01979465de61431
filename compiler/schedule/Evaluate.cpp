// Makespan and peaks from one walk; the span as the largest cycle mean of the matrix A of longest paths between ranks'
// starts and ends, without making A. Every rank's first letter is an F, whose microbatch comes back to every rank, so
// each entry of A is finite.
#include "compiler/schedule/Evaluate.h"

#include "compiler/schedule/Walk.h"
#include "runtime/plan/Limits.h"

#include <algorithm>

namespace pipec::schedule {

namespace {

using Wide = __int128;

/// The largest mean, rounded up, over the cycles of "the longest path to j comes from origin(j)". Each of its arcs is
/// an entry of A, so no true maximum is below it.
Time largestOriginCycle(const Walk &walk, const std::vector<Time> &release) {
  const auto ranks = static_cast<int32_t>(release.size());
  std::vector<int32_t> visit(ranks, 0); // by which search
  Time best = 0;
  for (int32_t search = 1; search <= ranks; ++search) {
    int32_t at = search - 1;
    for (; visit[at] == 0; at = walk.origin(at))
      visit[at] = search;
    if (visit[at] != search)
      continue;
    Wide length = 0;
    int64_t arcs = 0;
    const int32_t start = at;
    do {
      length += walk.end(at) - release[walk.origin(at)];
      ++arcs;
      at = walk.origin(at);
    } while (at != start);
    best = std::max(best, static_cast<Time>((length + arcs - 1) / arcs));
  }
  return best;
}

/// The least integer no smaller than the largest cycle mean of A. A trial T is at least that mean if and only if some x
/// has A ⊗ x - T <= x in every component, and then x := max(x, A ⊗ x - T) finds such an x from anywhere within as many
/// rounds as there are ranks (Bellman-Ford: no cycle adds, so the longest walk is a path). Trials start at the largest
/// mean of a cycle seen, which is nearly always the answer; if the rounds run out, T was too small and the interval is
/// halved. Exact for every input. Starts with the walk that released all ranks at 0.
Time spanOf(Walk &walk, Time makespan, int32_t ranks) {
  std::vector<Time> x(ranks, 0);
  Time low = largestOriginCycle(walk, x);
  Time high = makespan; // no entry of A is larger
  Time trial = low;
  for (int32_t round = 1;; ++round) {
    // The components of A ⊗ x differ by a makespan at most, those of x likewise by induction: subtracting the least
    // keeps all in range.
    std::vector<Time> next = x;
    for (int32_t r = 0; r < ranks; ++r)
      next[r] = std::max(next[r], walk.end(r) - trial);
    const bool settled = next == x;
    if (settled)
      high = trial;
    else if (round > ranks)
      low = trial + 1;
    if (low >= high)
      return high;
    if (settled || round > ranks) {
      trial = low + (high - low) / 2;
      round = 0;
    } else {
      const Time least = *std::min_element(next.begin(), next.end());
      for (Time &time : next)
        time -= least;
      x = std::move(next);
      walk.run(x); // ends and stays in time, as the first walk did
    }
    const Time seen = largestOriginCycle(walk, x);
    low = std::max(low, seen);
    if (low > trial) {
      trial = low;
      round = 0;
    }
  }
}

std::vector<Time> busyTimes(const Problem &problem) {
  std::vector<Time> busy(problem.ranks, 0);
  for (size_t s = 0; s < problem.stages.size(); ++s) {
    const Stage &stage = problem.stages[s];
    const Time backward =
        problem.backward == BackwardMode::Fused ? stage.backward : stage.backwardInput + stage.backwardWeight;
    busy[problem.rankOf[s]] += (stage.forward + backward) * problem.microbatches + stage.optimizer;
  }
  return busy;
}

} // namespace

Evaluation evaluate(const Problem &problem, const Words &words, const EvaluateOptions &options) {
  Evaluation result;
  if (options.withStarts)
    for (const Word &word : words)
      result.starts.emplace_back(word.size());
  Walk walk(problem, words, options.withSpan);
  const Walk::Outcome outcome = walk.run(std::vector<Time>(problem.ranks, 0), &result);
  if (outcome == Walk::Outcome::Done)
    for (int32_t r = 0; r < problem.ranks; ++r)
      result.makespan = std::max(result.makespan, walk.end(r));
  result.tooLong = outcome == Walk::Outcome::TooLong || result.makespan > limits::kTime;
  result.complete = outcome == Walk::Outcome::Done && !result.tooLong;
  if (!result.complete)
    return result;
  result.busy = busyTimes(problem);
  if (options.withSpan)
    result.span = spanOf(walk, result.makespan, problem.ranks);
  return result;
}

} // namespace pipec::schedule
