// Rolling: a repeated stretch of a straight-line program becomes one segment, body times trips (design, section 5), so
// that a regular plan's size does not grow with its microbatches.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec {

/// Rolls a program of one segment and one trip; what it executes stays the same, instruction by instruction. O(n log n)
/// in its instructions.
void roll(plan::Program &program);

/// For the programs of a variant that is only walked. Rolls one after the other, so that the walk touches less memory,
/// until a program stays more than an eighth as long as it was: to roll such a program takes longer than to walk it,
/// and the others will be like it.
class Roller {
public:
  void operator()(plan::Program &program);

private:
  bool pays = true;
};

} // namespace pipec
