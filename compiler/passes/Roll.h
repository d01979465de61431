// Rolling: a repeating part of a program becomes one segment of the plan, a loop body with a number of trips. So a
// regular plan does not grow with its microbatches.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec {

/// Rolls a program that has one segment and one trip. The rolled program executes the same instructions in the same
/// order. O(n log n) in the number of instructions.
void roll(plan::Program &program);

/// Rolls the programs of a variant that is only simulated, one call each, so that the simulation touches less memory.
/// Stops rolling after a program that stays longer than an eighth of its length: rolling such a program takes longer
/// than simulating it, and the other programs are probably similar.
class Roller {
public:
  void operator()(plan::Program &program);

private:
  bool pays = true;
};

} // namespace pipec
