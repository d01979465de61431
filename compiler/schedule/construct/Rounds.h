// A *round* is a stretch of time that holds the passes of several microbatches and is repeated for all others. A pass
// that runs past the end of the round continues at its beginning. A round is to several microbatches what a block is to
// one. With several microbatches a rank may hold, say, two and a half microbatches on average, where a block has to
// choose between two and three.
#pragma once

#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/model/Problem.h"

#include <optional>

namespace pipec::schedule {

struct RoundOptions {
  int32_t most = 16; // most microbatches in a round
  /// Room for a W, in hundredths of its length, wherever a pass going down the ranks meets a pass going up.
  int32_t room = 0;
};

/// The words of the shortest round found within the capacities. The search places at most a few times as many passes as
/// the problem has. None if no round is found, memory has no limit, or the problem has copies, slices or groups of
/// backwards. Needs check(problem) to have passed.
std::optional<Words> rounds(const Problem &problem, const Capacities &capacities, const RoundOptions &options);

} // namespace pipec::schedule
