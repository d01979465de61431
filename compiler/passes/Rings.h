// The rings of a rank while their sizes are being decided. A ring is the transfer buffers (slots) of a rank for one
// peer and one direction; the n-th transfer of a step uses slot n modulo the ring's size.
#pragma once

#include "compiler/program/ProgramSet.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <utility>
#include <vector>

namespace pipec {

/// Start and end of one rank's instructions in a predicted run, by step and instruction. There are several steps
/// because a step behind another differs from the first.
using Times = std::vector<std::vector<std::pair<plan::Time, plan::Time>>>;

/// One ring: its transfers in order, and from when to when each holds its slot.
struct RingPlan {
  struct Use {
    uint32_t first;    // the instruction whose start takes the slot
    uint32_t last;     // the instruction whose end frees it
    uint32_t transfer; // the send or receive
  };
  std::vector<Use> uses;
  int64_t bytes = 0;      // of one slot
  uint32_t size = 1;      // slots
  uint32_t unlimited = 1; // the size without a memory limit
  uint32_t least = 1;     // a size with which the words are known to run to their end
  uint32_t wanted = 1;    // the size with which it delays nothing in any timing, or as near to that as it comes
  std::vector<uint32_t> over = {}; // where known, by transfer, as in simulate::Flight
  bool drained = false;            // as in pipec::Ring
  bool heldUp = false; // whether first uses in a step wait for last uses of the step before, whatever the size

  /// Grows to the least size at which no use in this run waits for a slot. Slots are freed in the order of their uses.
  void grow(const Times &times);

  /// The uses behind whose ends uses start, as pairs of the two, each later use's first. That is the last use of the
  /// slot; or, where more are over anyway, the last of these: words that repeat then have waits that repeat, while the
  /// last use of the slot may stand where the words are others.
  std::vector<std::pair<uint32_t, uint32_t>> reuses() const;

  /// Whether each use of a slot begins, in the program's order, behind the end of the use before.
  bool inOrder() const;

private:
  bool crossesSteps(const Times &times) const;
};

using Rings = std::map<std::pair<int32_t, bool>, RingPlan>; // by peer, and whether it sends

/// Takes slots away until all rings together fit into `room` bytes, each time one from the ring with most bytes. Rings
/// go below their `least` only when all are down to it. Every ring keeps one slot, so they may still not fit.
void fit(Rings &rings, __int128 room);

/// Adds slots up to each ring's `wanted` while all rings together fit into `room` bytes, each time one to the ring that
/// has the smallest part of what is wanted. Rings of slots without bytes get all.
void widen(Rings &rings, __int128 room);

/// The bytes of all rings together.
__int128 bytesOf(const Rings &rings);

} // namespace pipec
