// Words of many microbatches from words of few. If all ranks return to the same position, only some microbatches
// further on, then what they did in between is a *period*. The period can be repeated, and each repetition adds that
// number of microbatches.
#pragma once

#include "compiler/schedule/model/Capacity.h"
#include "compiler/schedule/model/Objective.h"

#include <vector>

namespace pipec::schedule {

/// A part of the words that can be repeated. In it, each rank runs every letter of its stages `microbatches` times.
struct Period {
  int32_t microbatches = 0; // 0: none was found
  std::vector<size_t> from; // by rank: where the period begins in the word
  Time time = 0;            // time of the words with the period run once more
  double each = 0;          // time that one more microbatch adds

  /// The time of the words with `more` more microbatches; an estimate if there is no period.
  double timeWith(int32_t more) const { return double(time) + each * (more - microbatches); }
};

/// The period that adds the least to the objective's time. None if the ranks never return to the same position, or if
/// repeating the period would deadlock. `words` belong to `few`, and pass verify. O(letters), plus a few walks.
Period periodOf(const Problem &few, const Words &words, Objective objective);

/// The words for `problem`, which is `few` with more microbatches, made by repeating the period. The peak memory of no
/// rank grows. If whole periods give too many microbatches, one period is repeated without some of them.
Words grown(const Problem &problem, const Problem &few, const Words &words, const Period &period);

} // namespace pipec::schedule
