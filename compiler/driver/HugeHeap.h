// Puts the heap on large pages, for programs of hundreds of thousands of ops. A walk over so many misses the TLB at
// nearly every op; large pages halve the time of a compile (measured with test/bench/).
#pragma once

#include <cstddef>

namespace pipec {

/// Makes the heap grow by `bytes` at once (at most 1 GiB) on large pages, where the system gives them. Main thread,
/// before a large build; no effect where transparent huge pages are off.
void growHeap(size_t bytes);

} // namespace pipec
