// Waking on time, as far as a process without privileges may ask for it.
#pragma once

namespace pipec::runtime {

/// This thread, and those that it starts from now on, wait for a moment or for a message most of the time: their sleeps
/// end on time, and who wakes is let in before who computes. What a system does not know it ignores.
void bePunctual();

/// How long this thread's turns are, in nanoseconds; 0 where ordinary threads have no say.
long turnLength();

} // namespace pipec::runtime
