// Rolling: a stretch of a program that repeats becomes one segment of the plan, a loop body and a number of trips. So a
// regular plan does not grow with its microbatches.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec {

/// Rolls a program of one segment and one trip. It executes the same instructions in the same order as before. O(n log
/// n) in its instructions.
void roll(plan::Program &program);

/// Rolls the programs of a variant that is only walked, one call each, so that the walk touches less memory. It stops
/// rolling after a program that stays longer than an eighth of what it was: to roll such a program takes longer than to
/// walk it, and the others will be like it.
class Roller {
public:
  void operator()(plan::Program &program);

private:
  bool pays = true;
};

} // namespace pipec
