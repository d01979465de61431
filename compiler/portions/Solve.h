// Finds the least value of a program and a lower bound: best-first branch and bound over the values of the maxima.
#pragma once

#include "compiler/portions/Program.h"

namespace pipec::portions {

struct Solved {
  Counts counts;     // empty: no counts within all `most` were found
  Wide value = -1;   // value of `counts`
  Wide lower = 0;    // no counts have a smaller value; equal to `value`: `counts` are the best
  bool none = false; // it is proven that no counts stay within all `most`
};

/// A box (Box.h) gives each maximum a range of values and each shard a range of units. The ranges of units raise the
/// lower ends of the maxima, and the best value so far lowers the upper ends, until nothing changes. The box with the
/// least bound is then cut in two where the cut costs most. The result is exact unless `work` (evaluations of a term)
/// is used up. With one split, or with maxima of one split each, boxes are tight and few are needed, however many units
/// there are.
/// `begin` are counts to start from; those within all limits are tried. Of equally good counts the first is returned.
/// With `enough`, the search ends as soon as it knows whether any counts have a value of at most `enough`.
Solved solve(const Program &program, const std::vector<Counts> &begin, int64_t work, Wide enough = -1);

} // namespace pipec::portions
