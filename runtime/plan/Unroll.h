// Programs without loops, and the window of an instruction.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec::plan {

/// The same program with all instructions in one segment of one trip.
Program unrolled(const Program &program);

/// The window of an instruction; length 0: it has none. O(log windows).
Window windowOf(const Program &program, uint32_t instruction);

} // namespace pipec::plan
