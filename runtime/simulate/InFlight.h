// inFlight() finds how many slots a ring of transfer buffers needs so that it delays nothing, however long passes and
// transfers take.
//
// The instruction orders and the hand-overs of data define a partial order on what happens in a step and in the step
// after it: a queue runs its instructions one after the other, a transfer starts when both its ends can, an instruction
// starts after what it waits for. Every timing keeps this order. A ring of `size` slots adds waits: a transfer's slot
// is taken (by the pass that makes the data, or by the receive) only once the transfer `size` before it has freed the
// slot (its send is over, or the pass that takes the data has run). If the order implies these waits without the ring,
// the ring delays nothing in any timing; else there is a timing in which it delays something.
//
// The order leaves out the waits that an order file adds to transfers (plan::isApart), and that two queues share a
// device. So it allows more timings than there are: sizes may be larger than needed, never smaller.
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
  uint32_t inStep = 1;    // the least size that delays nothing within a step; larger sizes delay nothing either
  // By transfer: how many transfers, counted from the first of a step, are certain to be over before it takes its slot.
  std::vector<uint32_t> over = {};       // of its own step
  std::vector<uint32_t> overBefore = {}; // of the step before

  /// Whether all transfers of a step are over before the next step takes the first slot.
  bool isDrained() const;
  /// Whether a ring of this size, of at most `transfers`, delays nothing in any timing.
  bool bindsNever(uint32_t size) const;
  /// The least size, from `least` on, that delays nothing in any timing. None: any size delays the next step in some
  /// timing, as in plans without backwards, in which nothing tells a rank how far the next rank has come.
  std::optional<uint32_t> freeSize(uint32_t least = 1) const;
};

/// With shards the answer is that for ranks of one process. Sums add to the order that an instruction of one shard
/// comes after earlier instructions of another shard. All shards run one program, so the shard's own instructions of
/// the same names come before it too, with everything that they come after.
///
/// Finds the flights of each rank, in the order of peers, sends first. Rings that the plan may have change nothing.
/// Fails as simulate() does. O(instructions x queues).
Status inFlight(const plan::Variant &variant, std::vector<std::vector<Flight>> &flights);

} // namespace pipec::simulate
