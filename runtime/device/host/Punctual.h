// Waking on time, as far as a process without privileges may ask for it.
#pragma once

namespace pipec::runtime {

/// To call in a thread that waits most of the time. Its sleeps, and those of threads that it starts from now on, end on
/// time, and when they wake they run before threads that compute. Ignores what the system does not support.
void bePunctual();

/// The length of this thread's time slices, in nanoseconds; 0 if ordinary threads cannot choose.
long turnLength();

} // namespace pipec::runtime
