// The least value of a program, with a proof: best-first branch and bound over the values that maxima may have.
#pragma once

#include "compiler/portions/Program.h"

namespace pipec::portions {

struct Solved {
  Counts counts;     // empty: none were found that keep to what maxima may be at most
  Wide value = -1;   // of them
  Wide lower = 0;    // no counts have less; equal to `value`: these are the best
  bool none = false; // it is proven that no counts keep to it
};

/// A box of maxima (each between two values) gives each shard a range of units; what ranges leave of a maximum raises
/// its lower end, and the best value found lowers the upper ones, until nothing changes. The box of least bound is cut
/// where that costs most. Exact unless `work`, looks at a term, is used up. With one split, or with maxima of one split
/// each, boxes are tight and few are needed, however many units there are.
/// `begin` are counts to start from, of which those that keep to all limits are tried; of equal ones the first is
/// returned.
/// With `enough` it ends as soon as it is known whether some counts have no more than that.
Solved solve(const Program &program, const std::vector<Counts> &begin, int64_t work, Wide enough = -1);

} // namespace pipec::portions
