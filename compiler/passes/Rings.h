// The rings of a rank while their sizes are decided. A ring is the transfer buffers (slots) of a rank for one peer and
// one direction. The n-th transfer of a step uses slot n modulo the ring's size.
#pragma once

#include "compiler/program/ProgramSet.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <utility>
#include <vector>

namespace pipec {

/// Start and end of one rank's instructions in a predicted run, by step and instruction. There are several steps
/// because a step that follows another differs from the first.
using Times = std::vector<std::vector<std::pair<plan::Time, plan::Time>>>;

/// One ring: its transfers in order, and the time for which each holds its slot.
struct RingPlan {
  struct Use {
    uint32_t first;    // the slot is taken when this instruction starts
    uint32_t last;     // the slot is freed when this instruction ends
    uint32_t transfer; // the send or receive
  };
  std::vector<Use> uses;
  int64_t bytes = 0;      // of one slot
  uint32_t size = 1;      // slots
  uint32_t unlimited = 1; // the size without a memory limit
  uint32_t least = 1;     // a size with which the words are known not to deadlock
  uint32_t wanted = 1;    // the size with which the ring delays nothing in any timing, or the nearest size possible
  std::vector<uint32_t> over = {}; // by transfer, as in simulate::Flight; empty: not known
  bool drained = false;            // as in pipec::Ring
  /// Whether the first uses in a step wait for the last uses of the step before, whatever the size.
  bool heldUp = false;

  /// Grows the ring to the least size at which no use in this run waits for a slot. Slots are freed in the order of
  /// their uses.
  void grow(const Times &times);

  /// The waits for slots, as pairs: the first instruction of a use, and the instruction that must end before. That is
  /// the last instruction of the slot's previous use or, if more uses are known to have ended by then (`over`), the
  /// latest end of those. In the second case the waits of repeating words repeat too, whereas the slot's previous use
  /// may lie where the words differ.
  std::vector<std::pair<uint32_t, uint32_t>> reuses() const;

  /// Whether each use of a slot begins after the end of the use before it, in the program's order.
  bool inOrder() const;

private:
  bool crossesSteps(const Times &times) const;
};

using Rings = std::map<std::pair<int32_t, bool>, RingPlan>; // by peer, and whether the rank sends

/// Removes slots, one at a time from the ring with the most bytes, until all rings together fit into `room` bytes.
/// Rings go below their `least` only when all rings have reached theirs. Every ring keeps one slot, so the rings may
/// still not fit.
void fit(Rings &rings, __int128 room);

/// Adds slots up to each ring's `wanted`, while all rings together fit into `room` bytes, one at a time to the ring
/// with the smallest fraction of its `wanted`. Rings of slots without bytes get all their slots.
void widen(Rings &rings, __int128 room);

/// The bytes of all rings together.
__int128 bytesOf(const Rings &rings);

} // namespace pipec
