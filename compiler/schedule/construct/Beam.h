// A beam through time over the states of all ranks: how far each has got and what is under way. States that are equal
// have equal futures and become one; of the others those that have wasted least of the ranks' time and memory go on.
// Where all went on, no order takes less.
#pragma once

#include "compiler/schedule/model/Capacity.h"
#include "compiler/schedule/model/Objective.h"

#include <limits>
#include <optional>

namespace pipec::schedule {

struct BeamOptions {
  Objective objective = Objective::Span;
  Time below = std::numeric_limits<Time>::max(); // only words of less time are of interest
  size_t width = 100;                            // states that go on
  bool allOrNone = false;                        // gives up where more states than that would have to go on
  /// Of each stage, most microbatches between its forward and its backward; empty: no limit but memory.
  std::vector<int32_t> mostOfStage = {};
};

struct BeamResult {
  std::optional<Words> words; // of less time than `below`
  /// No state was left out that could have come to less than these words take, or, where there are none, `below`.
  bool exhaustive = false;
  int64_t letters = 0; // started in all states together
};

/// Whether a problem is for it; the rest have passes of no length, backwards in groups, very many stages a rank, or
/// times too large to add up.
bool canBeam(const Problem &problem);

/// Deterministic; letters started are at most `width` times a few times the problem's. Needs check(problem) to have
/// passed, and canBeam(problem).
BeamResult beam(const Problem &problem, const Capacities &capacities, const BeamOptions &options);

} // namespace pipec::schedule
