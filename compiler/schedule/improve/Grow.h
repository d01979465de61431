// Words of many microbatches from words of few: what all ranks do between two moments after which they stand as before,
// so many microbatches further on, is done again and again.
#pragma once

#include "compiler/schedule/model/Capacity.h"
#include "compiler/schedule/model/Objective.h"

#include <vector>

namespace pipec::schedule {

/// A part of the words that may be repeated: in it each rank runs every letter of its stages so many times.
struct Period {
  int32_t microbatches = 0; // none was found
  std::vector<size_t> from; // of each rank's word: where it begins
  Time time = 0;            // of the words, the period run once more
  double each = 0;          // what a microbatch takes that more of them add

  /// Of the words with so many microbatches more in all. Where there is no period: about that.
  double timeWith(int32_t more) const { return double(time) + each * (more - microbatches); }
};

/// That which adds least to the objective's time. None where the ranks never stand as before, or what would be repeated
/// stops in a cycle. Words are of `few`, which verify accepts. O(letters), and a few walks.
Period periodOf(const Problem &few, const Words &words, Objective objective);

/// The words for `problem`, which has more microbatches and is the same but for that. No rank ever holds more than
/// before. Where the period does not come out even, some of one's microbatches are left out.
Words grown(const Problem &problem, const Problem &few, const Words &words, const Period &period);

} // namespace pipec::schedule
