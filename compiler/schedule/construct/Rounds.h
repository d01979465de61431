// A *round* is a stretch of time into which several microbatches are laid and which is repeated for all others; what
// runs over its end goes on at its beginning. A round is to several microbatches what a block is to one. With several,
// a rank may hold two and a half microbatches on the average, where a block has to choose two or three.
#pragma once

#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/model/Problem.h"

#include <optional>

namespace pipec::schedule {

struct RoundOptions {
  int32_t most = 16; // microbatches of a round
  /// Room for a W, in hundredths of its length, wherever a pass that goes down the ranks meets one that goes up.
  int32_t room = 0;
};

/// Words of the shortest round found within the capacities. At most a few times as many passes are laid as the problem
/// has. Nothing where no round is found, nothing limits memory, or the problem has copies, slices or groups. Needs
/// check(problem) to have passed.
std::optional<Words> rounds(const Problem &problem, const Capacities &capacities, const RoundOptions &options);

} // namespace pipec::schedule
