// Trials and their test. A trial T is at least the largest cycle mean of A if and only if some x has A ⊗ x - T <= x in
// every component, and then x := max(x, A ⊗ x - T) finds such an x from anywhere in fewer rounds than there are ranks
// (Bellman-Ford: no cycle adds, so a longest walk is a path). Trials begin at the largest mean of a cycle seen, which
// is nearly always the answer, and mostly at once; if the rounds run out the trial was too small, and the interval left
// is halved.
#include "compiler/schedule/evaluate/Span.h"

#include <algorithm>

namespace pipec::schedule {

namespace {

/// The largest mean, rounded up, over the cycles of "the longest path to j begins at origins[j]". Each arc of it is an
/// entry of A, so A's largest mean is no less.
Time largestOriginCycle(const Step &step, const std::vector<Time> &starts) {
  const auto ranks = static_cast<int32_t>(starts.size());
  std::vector<int32_t> visit(ranks, 0); // by which search
  Time best = 0;
  for (int32_t search = 1; search <= ranks; ++search) {
    int32_t at = search - 1;
    for (; visit[at] == 0; at = step.origins[at])
      visit[at] = search;
    if (visit[at] != search)
      continue;
    __int128 length = 0;
    int64_t arcs = 0;
    const int32_t first = at;
    do {
      length += step.ends[at] - starts[step.origins[at]];
      ++arcs;
      at = step.origins[at];
    } while (at != first);
    best = std::max(best, static_cast<Time>((length + arcs - 1) / arcs));
  }
  return best;
}

/// max(x, A ⊗ x - trial).
std::vector<Time> raised(const std::vector<Time> &x, const Step &step, Time trial) {
  std::vector<Time> result = x;
  for (size_t r = 0; r < x.size(); ++r)
    result[r] = std::max(result[r], step.ends[r] - trial);
  return result;
}

} // namespace

Time largestCycleMean(Step step, const TakeStep &takeStep) {
  std::vector<Time> x(step.ends.size(), 0);
  Time low = largestOriginCycle(step, x);
  Time high = *std::max_element(step.ends.begin(), step.ends.end()); // no entry of A is larger
  Time trial = low;
  for (size_t round = 1;; ++round) {
    std::vector<Time> next = raised(x, step, trial);
    const bool settled = next == x;
    const bool tooSmall = !settled && round >= x.size();
    if (settled)
      high = trial;
    if (tooSmall)
      low = trial + 1;
    if (low >= high)
      return high;
    if (settled || tooSmall) {
      trial = low + (high - low) / 2;
      round = 0;
      continue;
    }
    // Components of A ⊗ x differ by A's largest entry at most, those of x likewise by induction: with the least at 0,
    // all stay in range.
    const Time least = *std::min_element(next.begin(), next.end());
    for (Time &start : next)
      start -= least;
    x = std::move(next);
    takeStep(x, step);
    low = std::max(low, largestOriginCycle(step, x));
    if (low > trial) {
      trial = low;
      round = 0;
    }
  }
}

} // namespace pipec::schedule
