// The communicators of a plan: sets of ranks, each with the queues that transfer or sum on it. Two queues of different
// ranks are of one communicator if a transfer or a sum of any variant joins them. All ranks find the same, in the same
// order.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/Layout.h"

#include <map>

namespace pipec::runtime {

struct Communicator {
  std::vector<int32_t> ranks;                       // ascending; the first makes its id
  std::vector<std::pair<int32_t, int32_t>> edges;   // (from, to): who sends to whom on it, ascending
  std::map<int32_t, std::vector<QueueId>> queuesOf; // of each rank's layout

  /// The place of a rank in it.
  int placeOf(int32_t rank) const;
};

std::vector<Communicator> communicatorsOf(const plan::Plan &plan);

} // namespace pipec::runtime
