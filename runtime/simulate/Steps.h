// The time of each step of a run in virtual time, by the one definition that measured steps have too (design, section
// 7: `step_ms`).
#pragma once

#include "runtime/simulate/Simulate.h"

#include <vector>

namespace pipec::simulate {

/// Whether steps overlap: updates run beside the next step's forwards, so that only a walk of several steps at once
/// knows when each of them ends.
bool overlaps(const plan::Variant &variant);

/// For each step the longest time, over all processes, from the process's last end in the step before (in the first
/// step: its first start) to its last end in this one. `result` is of a run of `steps` steps.
std::vector<plan::Time> stepTimes(const Result &result, int64_t steps);

/// Simulates options.steps steps.
Status stepTimes(const plan::Variant &variant, const Options &options, std::vector<plan::Time> &times);

/// So many steps of a variant, between two swaps.
struct Stretch {
  const plan::Variant *variant = nullptr;
  int64_t steps = 0;
};
/// Of a run of several stretches, all of the same ranks (SteppedRun.h).
Status stepTimes(const std::vector<Stretch> &run, const Scenario *scenario, std::vector<plan::Time> &times,
                 Launch launch = Launch::AsPlanned);

} // namespace pipec::simulate
