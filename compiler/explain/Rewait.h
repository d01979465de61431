// Recomputes a program's waits for other numbers of transfer buffers than it was made with, so that `explain` can
// simulate the gain from one more. These are the waits that compiler/passes writes; here they are derived from what
// instructions take and yield, so that plans read from a file work too.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec::emit {

/// Replaces the waits of transfers and passes for data and for free buffers; all other waits stay. The program must be
/// unrolled.
void rewait(plan::Program &program);

} // namespace pipec::emit
