// The duration of each step of a simulated run, by the same definition as for measured steps (design, section 7:
// `step_ms`).
#pragma once

#include "runtime/simulate/Simulate.h"

#include <vector>

namespace pipec::simulate {

/// Whether steps overlap: updates run beside the next step's forwards, so that only a simulation of several steps knows
/// when each of them ends.
bool overlaps(const plan::Variant &variant);

/// For each step the longest time, over all processes, from the process's last end in the step before (in the first
/// step: its first start) to its last end in this one. `result` is of a run of `steps` steps.
std::vector<plan::Time> stepTimes(const Result &result, int64_t steps);

/// Simulates options.steps steps.
Status stepTimes(const plan::Variant &variant, const Options &options, std::vector<plan::Time> &times);

/// Steps of one variant between two swaps.
struct Stretch {
  const plan::Variant *variant = nullptr;
  int64_t steps = 0;
};
/// Simulates a run of several stretches, all with the same ranks (SteppedRun.h).
Status stepTimes(const std::vector<Stretch> &run, const Scenario *scenario, std::vector<plan::Time> &times,
                 Launch launch = Launch::AsPlanned);

} // namespace pipec::simulate
