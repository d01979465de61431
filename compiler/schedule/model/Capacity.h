// What a rank's memory limit leaves for activations and contexts, after what the rank holds in any order: weights,
// workspace, transfer buffers.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <map>
#include <vector>

namespace pipec::schedule {

/// One end of a directed pair of ranks.
struct BufferEnd {
  int32_t rank = 0, peer = 0;
  bool sends = false; // false: this end receives
  auto operator<=>(const BufferEnd &) const = default;
};

/// For each end of each pair of ranks that talk: the bytes of the pair's largest transfer.
std::map<BufferEnd, Bytes> payloads(const Problem &problem);

/// Bytes of the memory limit that no order can use, by rank: bytes withheld from the rank, static memory, workspace,
/// and `buffers` transfer buffers of the largest payload at each end of each directed pair of ranks that talk.
std::vector<__int128> heldAlways(const Problem &problem, int32_t buffers);

/// The least `memoryLimit` under which an order exists, with `withheld` unchanged and one buffer for each direction of
/// each pair of ranks. The order that runs one microbatch completely before the next starts fits under this limit.
/// Every order needs as much, since between a microbatch's last F and its first B a rank holds everything that its
/// stages keep of that microbatch.
Bytes leastLimit(const Problem &problem);
/// The same, by rank.
std::vector<__int128> leastLimits(const Problem &problem);
/// The rank that needs leastLimit().
int32_t tightestRank(const Problem &problem);

/// Bytes of activations and contexts that each rank may hold; empty: no limit.
using Capacities = std::vector<Bytes>;

/// Bytes that the limit leaves each rank for activations and contexts, after static memory, workspace and `buffers`
/// transfer buffers of the largest payload at each end of each directed pair of ranks. Empty without a limit; never
/// negative.
Capacities capacitiesOf(const Problem &problem, int32_t buffers = 2);

} // namespace pipec::schedule
