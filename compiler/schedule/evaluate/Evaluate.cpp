// The makespan from one walk; peaks from each word alone; the span as the largest cycle mean of the matrix A of longest
// paths between ranks' starts and ends, without making A. Every rank's first letter is an F, whose microbatch comes
// back to every rank, so each entry of A is finite.
#include "compiler/schedule/evaluate/Evaluate.h"

#include "compiler/schedule/evaluate/Timer.h"

#include "compiler/schedule/evaluate/Span.h"
#include "compiler/schedule/evaluate/WordWalk.h"
#include "runtime/plan/Limits.h"

#include <algorithm>
#include <limits>

namespace pipec::schedule {

namespace {

using Wide = __int128;

Step stepOf(const Walk &walk, int32_t ranks) {
  Step step;
  for (int32_t r = 0; r < ranks; ++r) {
    step.ends.push_back(walk.end(r));
    step.origins.push_back(walk.origin(r));
  }
  return step;
}

/// Begins with the walk in which all ranks were released at 0. It ended, and not too late, so walks from other releases
/// do too.
Time spanOf(Walk &walk, int32_t ranks) {
  return largestCycleMean(stepOf(walk, ranks), [&](const std::vector<Time> &starts, Step &step) {
    walk.run(starts);
    step = stepOf(walk, ranks);
  });
}

std::vector<Time> busyTimes(const Problem &problem, const Words &words) {
  std::vector<Time> busy(problem.ranks, 0);
  for (size_t s = 0; s < problem.stages.size(); ++s)
    busy[problem.rankOf[s]] += problem.stages[s].optimizer;
  for (size_t r = 0; r < words.size(); ++r)
    for (size_t at = 0; at < words[r].size(); ++at) {
      const Op &op = words[r][at];
      if (op.overlapped) {
        const Op &backward = words[r][++at];
        busy[r] += pairCost(problem, op, backward) + problem.stages[backward.stage].recompute;
      } else {
        busy[r] += costOf(problem.stages[op.stage], op.letter);
      }
    }
  return busy;
}

} // namespace

Bytes peakOf(const Problem &problem, const Word &word) {
  Wide live = 0, peak = 0;
  const auto run = [&](int32_t stage, Letter letter) {
    peak = std::max(peak, live + takenBy(problem.stages[size_t(stage)], letter));
    live += changeOf(problem.stages[size_t(stage)], letter);
  };
  const bool recomputes = problem.recomputes();
  for (size_t at = 0; at != word.size(); ++at) {
    if (const int32_t again = recomputes ? recomputedBefore(problem, word, at) : -1; again >= 0)
      run(again, Letter::R);
    run(word[at].stage, word[at].letter);
  }
  return static_cast<Bytes>(std::min<Wide>(peak, std::numeric_limits<Bytes>::max()));
}

Evaluation evaluate(const Problem &problem, const Words &words, const EvaluateOptions &options) {
  Evaluation result;
  if (options.withStarts)
    for (const Word &word : words)
      result.starts.emplace_back(word.size());
  Walk walk(problem, words, options.withSpan);
  const Walk::Outcome outcome =
      walk.run(std::vector<Time>(problem.ranks, 0), options.withStarts ? &result.starts : nullptr);
  if (outcome == Walk::Outcome::Done)
    for (int32_t r = 0; r < problem.ranks; ++r)
      result.makespan = std::max(result.makespan, walk.end(r));
  result.tooLong = outcome == Walk::Outcome::TooLong || result.makespan > limits::kTime;
  result.complete = outcome == Walk::Outcome::Done && !result.tooLong;
  if (!result.complete)
    return result;
  for (const Word &word : words)
    result.peak.push_back(peakOf(problem, word));
  result.busy = busyTimes(problem, words);
  if (options.withSpan)
    result.span = spanOf(walk, problem.ranks);
  return result;
}

Time timeOf(const Problem &problem, const Words &words, Objective objective) {
  return Timer(problem, words, objective).time();
}

} // namespace pipec::schedule
