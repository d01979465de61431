// Weaving: microbatches are placed one after the other. All passes of a microbatch go into the gaps that earlier
// microbatches leave on the ranks, as early as memory allows; then the next microbatch follows. Forwards and backwards
// run towards each other through the ranks. They pass each other without waiting if they are in step (Weave.cpp), and
// microbatches placed like this fall into step by themselves, for any costs and placement. There is no fixed interval:
// the distance between microbatches varies with memory.
#pragma once

#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/model/Problem.h"

#include <optional>

namespace pipec::schedule {

struct WeaveOptions {
  /// The least distance between the starts of two microbatches, in hundredths of what one microbatch takes: the work of
  /// the busiest rank or, if that is longer, the time for which it would fill the scarcest rank's memory.
  int32_t pace = 100;
  /// Whether each F is placed with room for a W right after it.
  bool room = false;
  /// Whether all F and B of a rank are placed as if they were as long as the longest of them. Then microbatches that
  /// pass each other without waiting on one rank do so on all ranks. With a `pitch`, passes keep their lengths, and the
  /// times from stage to stage are made equal instead.
  bool equal = false;
  /// Whether microbatches are placed backwards in time, from the end of the last microbatch. A microbatch gives way to
  /// those placed before. Placed forwards, its F give way to the B of earlier microbatches; placed from the end, its B
  /// give way to the F of later microbatches.
  bool fromEnd = false;
  /// The least time that a microbatch takes from a stage to the next (F to F) and back (B to B), both added, in
  /// hundredths of the stage's F, B and W. This leaves room for these passes where streams of microbatches pass each
  /// other. With `equal`, both directions take equally long. 0: the hand-over times alone.
  int32_t pitch = 0;
};

/// Words within the capacities. None if the capacities do not hold one microbatch, memory has no limit, or the problem
/// has copies, slices or groups of backwards. Needs check(problem) to have passed.
std::optional<Words> weave(const Problem &problem, const Capacities &capacities, const WeaveOptions &options);

} // namespace pipec::schedule
