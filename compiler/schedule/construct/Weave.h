// Weaving: microbatches are laid one after the other. All passes of one are laid, into the gaps that those before it
// leave on all ranks, as early as memory holds them, before the next is. Forwards and backwards run towards each other
// through the ranks; they pass without waiting if they are in step (Weave.cpp), and microbatches laid like this fall
// into step by themselves, at any costs and placement. No interval is given: distances between microbatches vary as
// memory asks.
#pragma once

#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/model/Problem.h"

#include <optional>

namespace pipec::schedule {

struct WeaveOptions {
  /// The least distance between the starts of two microbatches, in hundredths of what one microbatch takes: work of the
  /// busiest rank, or, if that is longer, the time for which it would take all of the scarcest rank's memory.
  int32_t pace = 100;
  /// Whether F are laid with room for a W right behind them.
  bool room = false;
  /// Whether all F and B of a rank are laid as if they were as long as the longest of them. Then microbatches that pass
  /// each other without waiting on one rank do so on all. With a `pitch`, passes keep their lengths, and the time from
  /// stage to stage is made equal instead.
  bool equal = false;
  /// Whether microbatches are laid from the last one's end on, backwards in time. What is laid later gives way to what
  /// is there. Laid forwards, a microbatch's F give way to the B of those before it; laid from the end, its B give way
  /// to the F of those behind it.
  bool fromEnd = false;
  /// The least time that a microbatch takes from a stage to the next one (F to F) and back (B to B), both ways
  /// together, in hundredths of the stage's F, B and W: so there is room for these where streams pass each other. With
  /// `equal`, the way on takes as long as the way back. 0: the hand-overs alone.
  int32_t pitch = 0;
};

/// Words within the capacities. Nothing where these do not hold one microbatch, nothing limits memory, or the problem
/// has copies, slices or groups. Needs check(problem) to have passed.
std::optional<Words> weave(const Problem &problem, const Capacities &capacities, const WeaveOptions &options);

} // namespace pipec::schedule
