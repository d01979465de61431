// Rounds: some microbatches laid into a stretch of time that closes on itself, which is repeated for all others. What
// blocks are to one microbatch; several in one round may be as many as memory holds on the average.
#pragma once

#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/model/Problem.h"

#include <optional>

namespace pipec::schedule {

struct RoundOptions {
  int32_t most = 16; // microbatches of a round
  /// Room for a W, in hundredths of it, wherever two passes pass each other.
  int32_t room = 0;
};

/// Words of the shortest round found within the capacities, after at most a few times the problem's letters were laid;
/// none where there is none, or nothing limits memory, or the problem has copies, slices or groups. Needs
/// check(problem) to have passed.
std::optional<Words> rounds(const Problem &problem, const Capacities &capacities, const RoundOptions &options);

} // namespace pipec::schedule
