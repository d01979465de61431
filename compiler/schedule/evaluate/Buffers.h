// How many transfer buffers words need: with fewer, ranks would wait for each other for ever, whatever the times.
#pragma once

#include "compiler/schedule/model/Capacity.h"

namespace pipec::schedule {

/// For each end its number of buffers, each as large as the pair's largest payload. Transfers use them in turn.
using Buffers = std::map<BufferEnd, int32_t>;

/// Buffers with which the words run to their end, where the transfers of a pair go in the order in which they are made.
/// `room` is the memory that each rank has left for buffers.
///
/// The numbers are small but not always the least. Each end has at least one buffer. A receiver that takes transfers
/// out of order has room for all from the oldest that it has not taken to the one that it takes: no run can do with
/// less. Where the words still stop, the pair that stops them gets one more, at the end whose rank has more room left.
///
/// Needs verify(problem, words) to have passed. O(letters + ranks · buffers).
Buffers buffersFor(const Problem &problem, const Words &words, std::vector<__int128> room);

/// What `buffers` take on each rank.
std::vector<__int128> bytesOf(const Problem &problem, const Buffers &buffers);

/// By how many bytes the words, with the buffers that they need, exceed the memory limit on the rank that exceeds it
/// most; 0: they fit. The problem must have a limit.
__int128 excessOf(const Problem &problem, const Words &words);

} // namespace pipec::schedule
