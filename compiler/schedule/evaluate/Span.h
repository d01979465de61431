// The span of words, which is the largest cycle mean of a max-plus matrix A: A[i][j] is the longest path from rank i's
// start of a step to rank j's end. To write A down would take a walk over the words for each rank, so A is known here
// only by what it does to a vector of starts.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <functional>
#include <vector>

namespace pipec::schedule {

/// One step: when each rank ends, and the rank at whose start its longest path begins.
struct Step {
  std::vector<Time> ends;       // ends[j] = max over i of starts[i] + A[i][j]
  std::vector<int32_t> origins; // an i that attains it
};

/// Takes one step from the given starts (0 to the largest entry of A).
using TakeStep = std::function<void(const std::vector<Time> &starts, Step &step)>;

/// The largest cycle mean of A, rounded up; exact. A's entries are 0 to limits::kTime. `step` holds the step from
/// starts of 0 and is written over.
Time largestCycleMean(Step step, const TakeStep &takeStep);

} // namespace pipec::schedule
