// Beam search through time. A state records how far each rank has got and which results are under way between ranks.
// Equal states have equal futures, so they are merged. Of the rest, only the states that have wasted the least rank
// time and memory continue. If no state was ever dropped, no order takes less time than the one found.
#pragma once

#include "compiler/schedule/model/Capacity.h"
#include "compiler/schedule/model/Objective.h"

#include <limits>
#include <optional>
#include <stop_token>

namespace pipec::schedule {

struct BeamOptions {
  Objective objective = Objective::Span;
  Time below = std::numeric_limits<Time>::max(); // picoseconds; only words that take less are wanted
  size_t width = 100;                            // states that continue
  bool allOrNone = false;                        // gives up when more than `width` states would continue
  /// For each stage, the largest number of microbatches between their forward and their backward there; empty: only
  /// memory limits this number.
  std::vector<int32_t> mostOfStage = {};
  std::stop_token stop = {}; // the search gives up when a stop is requested
};

struct BeamResult {
  std::optional<Words> words; // these take less time than `below`
  /// Whether the search dropped no state that could have led to faster words than `words` or, if there are no words, to
  /// words that take less than `below`.
  bool exhaustive = false;
  int64_t letters = 0; // letters started, summed over all states
};

/// Whether the beam search can handle this problem. It cannot if a pass takes no time, backwards run in groups, a rank
/// has too many stages, or the times may add up to more than limits::kTime.
bool canBeam(const Problem &problem);

/// Deterministic. Starts at most a small multiple of `width` times the problem's letters. Needs check(problem) to have
/// passed, and canBeam(problem).
BeamResult beam(const Problem &problem, const Capacities &capacities, const BeamOptions &options);

} // namespace pipec::schedule
