// Words of many microbatches from words of few. If all ranks come to stand as before, only some microbatches further
// on, what they did in between is a *period*. It can be repeated, and each time adds so many microbatches.
#pragma once

#include "compiler/schedule/model/Capacity.h"
#include "compiler/schedule/model/Objective.h"

#include <vector>

namespace pipec::schedule {

/// A part of the words that may be repeated. In it each rank runs every letter of its stages `microbatches` times.
struct Period {
  int32_t microbatches = 0; // 0: none was found
  std::vector<size_t> from; // of each rank's word: where it begins
  Time time = 0;            // of the words, the period run once more
  double each = 0;          // by how much one more microbatch lengthens the words

  /// The time of the words with `more` more microbatches in all; where there is no period, an estimate.
  double timeWith(int32_t more) const { return double(time) + each * (more - microbatches); }
};

/// The period that adds least to the objective's time. None where the ranks never stand as before, or where they would
/// wait for each other in a cycle if the part were repeated. `words` are of `few`, and verify accepts them. O(letters),
/// and a few walks.
Period periodOf(const Problem &few, const Words &words, Objective objective);

/// The words for `problem`, which is `few` with more microbatches: the period is repeated. No rank ever holds more than
/// before. Where whole periods give too many microbatches, some are left out of one.
Words grown(const Problem &problem, const Problem &few, const Words &words, const Period &period);

} // namespace pipec::schedule
