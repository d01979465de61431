// What a rank's memory limit leaves for activations and contexts, beside what the rank holds in any order: weights,
// workspace, transfer buffers.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <map>
#include <vector>

namespace pipec::schedule {

/// One end of a directed pair of ranks.
struct BufferEnd {
  int32_t rank = 0, peer = 0;
  bool sends = false; // else it receives
  auto operator<=>(const BufferEnd &) const = default;
};

/// For each end of each pair of ranks that talk: the bytes of the pair's largest transfer.
std::map<BufferEnd, Bytes> payloads(const Problem &problem);

/// What of the memory limit no order can use on each rank: what is withheld from it, static memory, workspace, and
/// `buffers` transfer buffers of the largest payload at each end of each directed pair of ranks that talk.
std::vector<__int128> heldAlways(const Problem &problem, int32_t buffers);

/// The least `memoryLimit` under which an order exists, `withheld` being as it is, with one buffer for each direction
/// of each pair of ranks. It is that of the order in which one microbatch goes all the way before the next starts.
/// Every order needs as much, since between a microbatch's last F and first B a rank holds all that its stages keep of
/// that microbatch.
Bytes leastLimit(const Problem &problem);
/// The same a rank each.
std::vector<__int128> leastLimits(const Problem &problem);
/// The rank for which that much is needed.
int32_t tightestRank(const Problem &problem);

/// Bytes of activations and contexts that each rank may hold; empty: no limit.
using Capacities = std::vector<Bytes>;

/// What the limit leaves each rank for activations and contexts, beside static memory, workspace and `buffers` transfer
/// buffers of the largest payload at each end of each directed pair of ranks; empty without a limit, never negative.
Capacities capacitiesOf(const Problem &problem, int32_t buffers = 2);

} // namespace pipec::schedule
