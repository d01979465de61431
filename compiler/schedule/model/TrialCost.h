// The cost of a choice that precedes the order: of a cut, or of the stages to recompute.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <compare>

namespace pipec::schedule {

/// Smaller is better, compared field by field.
struct TrialCost {
  __int128 excess = 0; // bytes over the memory limit, on the rank that exceeds its limit most; 0: it fits
  Time time = 0;       // of the objective, at least the busiest rank's work; picoseconds
  Time other = 0;      // of the other objective
  auto operator<=>(const TrialCost &) const = default;
};

} // namespace pipec::schedule
