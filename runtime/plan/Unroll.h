// Programs without loops, and what a row beside the instructions says of one.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec::plan {

/// The same instructions in one segment and one trip.
Program unrolled(const Program &program);

/// An instruction's window; of no length: it has none. O(log windows).
Window windowOf(const Program &program, uint32_t instruction);

} // namespace pipec::plan
