// A beam search through time. Its states say of all ranks how far each has got, and what is under way between them.
// States that are equal have equal futures and become one. Of the others, only those go on that have wasted least of
// the ranks' time and memory. If none was ever dropped, no order takes less than the one found.
#pragma once

#include "compiler/schedule/model/Capacity.h"
#include "compiler/schedule/model/Objective.h"

#include <limits>
#include <optional>
#include <stop_token>

namespace pipec::schedule {

struct BeamOptions {
  Objective objective = Objective::Span;
  Time below = std::numeric_limits<Time>::max(); // only words of less time are of interest
  size_t width = 100;                            // states that go on
  bool allOrNone = false;                        // gives up where more than `width` states would have to go on
  /// For each stage, the most microbatches between their forward and backward there; empty: no limit but memory.
  std::vector<int32_t> mostOfStage = {};
  std::stop_token stop = {}; // gives up when asked to
};

struct BeamResult {
  std::optional<Words> words; // of less time than `below`
  /// No state was dropped that could have led to a time less than that of the words, or, without words, less than
  /// `below`.
  bool exhaustive = false;
  int64_t letters = 0; // started in all states together
};

/// Whether a beam can search this problem: not where passes have no length, backwards run in groups, a rank has very
/// many stages, or times are too large to add up.
bool canBeam(const Problem &problem);

/// Deterministic; letters started are at most `width` times a few times the problem's. Needs check(problem) to have
/// passed, and canBeam(problem).
BeamResult beam(const Problem &problem, const Capacities &capacities, const BeamOptions &options);

} // namespace pipec::schedule
