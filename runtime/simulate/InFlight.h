// How many transfers a ring of transfer buffers must hold so that it delays nothing, whatever passes and transfers
// take.
//
// The words and the data that are handed over put what happens in a step, and in the step after it, into a partial
// order: a queue runs its instructions one after the other, a transfer starts where both its ends can, an instruction
// starts behind what it waits for. A timing is any that keeps this order. A ring of `size` slots adds waits to it: a
// transfer's slot is taken (by the pass that makes what is sent, or by the receive) once the transfer `size` before it
// has freed it (its send is over, or the pass has run that takes what was received). Where the order says so without
// the ring, the ring delays nothing in any timing; where it does not, there is a timing in which it does.
//
// Waits that an order file adds to transfers are not in this order (plan::isApart), nor is it that two queues share a
// device: it allows more timings than there are, so that sizes may be larger than needed, never smaller.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace pipec::simulate {

/// The transfers of a rank with one peer in one direction.
struct Flight {
  int32_t peer = 0;
  plan::Direction direction = plan::Direction::Send;
  uint32_t transfers = 0; // in a step
  uint32_t inStep = 1;    // the least size that delays nothing within a step; so do all larger ones
  // For each transfer, how many, from the first of a step on, are sure to be over before it takes its slot.
  std::vector<uint32_t> over = {};       // of its own step
  std::vector<uint32_t> overBefore = {}; // of the step before

  /// Whether all are over before the next step takes the first slot.
  bool isDrained() const;
  /// Whether a ring of this size, of at most `transfers`, delays nothing in any timing.
  bool bindsNever(uint32_t size) const;
  /// The least such size that is no less than `least`; none: any size delays the next step in some timing, as in plans
  /// without backwards, where nothing tells a rank how far the next one has come.
  std::optional<uint32_t> freeSize(uint32_t least = 1) const;
};

/// Of shards the answer is that of a rank which is one process. Sums add to the order that an instruction of one shard
/// is behind what stands before it on another; as all run one program, that shard's own instructions of the same names
/// are before it too, and so is whatever the other's are behind.
///
/// Those of each rank, in the order of peers, for each what is sent first. The plan's own rings, if it has any, change
/// nothing. Fails as simulate() does. O(instructions x queues).
Status inFlight(const plan::Variant &variant, std::vector<std::vector<Flight>> &flights);

} // namespace pipec::simulate
