// How many transfer buffers words need: with fewer, ranks would wait for each other for ever, whatever the times.
#pragma once

#include "compiler/schedule/model/Capacity.h"

namespace pipec::schedule {

/// So many buffers at each end, of its pair's largest payload; reused in turn.
using Buffers = std::map<BufferEnd, int32_t>;

/// Buffers with which the words run to their end, where each pair's transfers go in the order in which they are made;
/// at least one an end. Few, not the fewest: what a receiver takes out of order is certain; beyond that, where words
/// stop, the end whose rank has more memory left under `room` (a rank each) gets one more. Needs verify(problem, words)
/// to have passed. O(letters + ranks · buffers).
Buffers buffersFor(const Problem &problem, const Words &words, std::vector<__int128> room);

/// What `buffers` take on each rank.
std::vector<__int128> bytesOf(const Problem &problem, const Buffers &buffers);

/// By how much words and the buffers that they need beside what they hold exceed the memory limit, which there is, on
/// the rank where they do most; 0: they fit.
__int128 excessOf(const Problem &problem, const Words &words);

} // namespace pipec::schedule
