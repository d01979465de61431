// Works out a program's waits anew for other numbers of transfer buffers than it was made with, so that `explain` can
// simulate what one more would gain. These are the waits that compiler/passes writes; here they are derived from what
// the instructions take and yield, so that a plan read from a file will do.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec::emit {

/// Replaces the waits that transfers and passes have for data and for free buffers; all other waits stay. The program
/// must be unrolled.
void rewait(plan::Program &program);

} // namespace pipec::emit
