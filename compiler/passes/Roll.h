// Rolling: a repeated stretch of a straight-line program becomes one segment, body times trips (design, section 5), so
// that a regular plan's size does not grow with its microbatches.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec {

/// Rolls a program of one segment and one trip; what it executes stays the same, instruction by instruction.
/// O(n log n) in its instructions.
void roll(plan::Program &program);

/// For the programs of a variant that is only walked, one after the other: rolls them, which leaves less memory to
/// touch, until one stays more than an eighth as long. To roll such takes longer than to walk it, and the others will
/// be like it.
class Roller {
public:
  void operator()(plan::Program &program);

private:
  bool pays = true;
};

} // namespace pipec
