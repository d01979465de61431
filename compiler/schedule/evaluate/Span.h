// The span of words: the largest cycle mean of a max-plus matrix A, where A[i][j] is the longest path from rank i's
// start of a step to rank j's end. Writing A down would take a walk over the words for each rank, so A is only applied
// to vectors of starts.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <functional>
#include <vector>

namespace pipec::schedule {

/// One step: the end of each rank, and the rank at which its longest path begins.
struct Step {
  std::vector<Time> ends;       // ends[j] = max over i of starts[i] + A[i][j]
  std::vector<int32_t> origins; // an i that attains it
};

/// Takes one step from the given starts (0 to the largest entry of A).
using TakeStep = std::function<void(const std::vector<Time> &starts, Step &step)>;

/// The largest cycle mean of A, exact and then rounded up. The entries of A are 0 to limits::kTime. `step` must hold
/// the step from starts of 0, and is overwritten.
Time largestCycleMean(Step step, const TakeStep &takeStep);

} // namespace pipec::schedule
