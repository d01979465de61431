// A program's waits for other numbers of transfer buffers than it was made with: what `explain` asks to know what one
// more would gain. The same waits as compiler/passes writes, derived here from what the instructions take and yield, so
// that a plan from a file will do.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec::emit {

/// The same instructions in one segment and one trip.
plan::Program unrolled(const plan::Program &program);

/// What transfers and passes wait for on account of data and rings, anew; all other waits stay. The program is
/// unrolled.
void rewait(plan::Program &program);

} // namespace pipec::emit
