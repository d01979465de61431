// Weaving: microbatches are laid one after the other, each whole, into the gaps that those before it leave on all
// ranks, as soon as memory holds it. What it lays keeps to the phases in which forwards and backwards that run towards
// each other pass without waiting, at any costs and placement; no interval is given, so that spacings mix as memory
// asks.
#pragma once

#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/model/Problem.h"

#include <optional>

namespace pipec::schedule {

struct WeaveOptions {
  /// Microbatches start no closer than so many hundredths of what one takes at least: of work, and of memory held.
  int32_t pace = 100;
  /// What is laid with room for a W beside it.
  enum class Room : uint8_t { None, Forward, Backward };
  Room room = Room::None;
  /// Whether a rank's F and B are laid as long as the longest of them: then microbatches that pass each other without
  /// waiting on one rank do so on all. Where there is a pitch, that does it.
  bool equal = false;
  /// Whether they are laid from the last one's end on, time running back. What is laid later waits for what is there:
  /// of streams that run the same way, those of F for those of B, and so the other way round.
  bool fromEnd = false;
  /// From a stage on to the next one and back a microbatch takes so many hundredths of a stage's passes at least, W
  /// included: room for these where streams pass each other. With `equal`, as long on as back.
  int32_t pitch = 0;
  /// Whether one that waits to be in step does not put off those behind it.
  bool even = false;
};

/// Words within the capacities; none where these do not hold one microbatch, or nothing limits memory, or the problem
/// has copies, slices or groups. Needs check(problem) to have passed.
std::optional<Words> weave(const Problem &problem, const Capacities &capacities, const WeaveOptions &options);

} // namespace pipec::schedule
