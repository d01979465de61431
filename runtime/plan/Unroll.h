// Programs without loops, and what a row beside the instructions says of one.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec::plan {

/// The same instructions in one segment and one trip.
Program unrolled(const Program &program);

/// The length of an instruction's window; 0: it has none. O(log windows).
Time windowOf(const Program &program, uint32_t instruction);

} // namespace pipec::plan
