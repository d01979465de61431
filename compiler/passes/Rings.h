// The transfer buffers of a rank while their number is being decided (design, section 5: slots).
#pragma once

#include "compiler/program/ProgramSet.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <utility>
#include <vector>

namespace pipec {

/// When one rank's instructions start and end in a predicted run, step by step. Steps after the first show what a step
/// is like that follows others.
using Times = std::vector<std::vector<std::pair<plan::Time, plan::Time>>>;

/// The ring of one end of a directed pair while its size is decided: its transfers in order, and who holds a buffer for
/// each.
struct RingPlan {
  struct Use {
    uint32_t first;    // the instruction whose start takes the buffer
    uint32_t last;     // whose end frees it
    uint32_t transfer; // the send or receive
  };
  std::vector<Use> uses;
  int64_t bytes = 0;
  uint32_t size = 1;
  uint32_t unlimited = 1; // what the size would be without a memory limit
  uint32_t least = 1;     // with which the words are known to run to their end
  bool heldUp = false;    // whatever the size, the first users in a step wait for the last ones of the step before

  /// Grows to the least size at which no use waits for a buffer in this run. Buffers come free in order.
  void grow(const Times &times);

  /// Whether every slot's next use stands behind its last one.
  bool inOrder() const;

private:
  bool crossesSteps(const Times &times) const;
};

using Rings = std::map<std::pair<int32_t, bool>, RingPlan>; // by peer, and whether it sends

/// Takes slots away until all rings together fit into `room`, from the ring with most bytes first. Rings with more than
/// their `least` give first; no ring gives its last slot.
void fit(Rings &rings, __int128 room);

/// The bytes of all rings together.
__int128 bytesOf(const Rings &rings);

} // namespace pipec
