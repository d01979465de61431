// The number of transfer buffers that words need to avoid deadlock. With fewer buffers the ranks would deadlock,
// whatever the times.
#pragma once

#include "compiler/schedule/model/Capacity.h"

namespace pipec::schedule {

/// By end: the number of buffers, each as large as the pair's largest payload. Transfers use the buffers of an end in
/// turn.
using Buffers = std::map<BufferEnd, int32_t>;

/// Buffers with which the words run to their end, if the transfers of each pair go in the order in which they are sent.
/// `room`: bytes that each rank has left for buffers.
///
/// The numbers are small but not always the least. Each end has at least one buffer. A receiver that takes transfers
/// out of order needs room for all transfers from the oldest not yet taken to the one it takes; no run works with less.
/// If the words still stop, the pair that stops them gets one more buffer, at the end with more room left on its rank.
///
/// Needs verify(problem, words) to have passed. O(letters + ranks · buffers).
Buffers buffersFor(const Problem &problem, const Words &words, std::vector<__int128> room);

/// By rank: the bytes of `buffers`.
std::vector<__int128> bytesOf(const Problem &problem, const Buffers &buffers);

/// The bytes by which the words and their buffers exceed the memory limit, on the rank that exceeds it most; 0: they
/// fit. The problem must have a limit.
__int128 excessOf(const Problem &problem, const Words &words);

} // namespace pipec::schedule
