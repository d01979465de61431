// What a judge finds of a choice that is made before the order: of a cut, or of the stages to recompute.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <compare>

namespace pipec::schedule {

/// The best least.
struct TrialCost {
  __int128 excess = 0; // bytes over the memory limit, on the rank where it is most; 0: it fits
  Time time = 0;       // of the objective, no less than the busiest rank's work
  Time other = 0;      // of the other objective
  auto operator<=>(const TrialCost &) const = default;
};

} // namespace pipec::schedule
