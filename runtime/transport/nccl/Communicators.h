// The communicators of a plan: sets of processes, each with the queues that transfer or sum on it. Two queues of
// different processes belong to one communicator if a transfer or a sum of any variant joins them. The replicas of a
// rank have another communicator for the collectives of its layers, which may share their queue with a sum of all
// processes. All processes find the same communicators, in the same order.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/Layout.h"

#include <map>

namespace pipec::runtime {

struct Communicator {
  std::vector<int32_t> ranks;                       // world ranks, ascending; the first creates its id
  std::vector<std::pair<int32_t, int32_t>> edges;   // (from, to): who sends to whom on it, ascending
  std::map<int32_t, std::vector<QueueId>> queuesOf; // by rank: queues of its layout
  int32_t group = -1; // the group whose collectives of layers use it; -1: all other transfers and sums

  /// The number of a rank in the communicator.
  int placeOf(int32_t rank) const;
};

std::vector<Communicator> communicatorsOf(const plan::Plan &plan);

} // namespace pipec::runtime
