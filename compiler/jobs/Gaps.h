// The times at which the devices of a plan wait, by its own times.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <vector>

namespace pipec::jobs {

/// The wait of a rank's device before an instruction of its compute queue that has waits: at least this long in every
/// step of a run. The first instruction of a run does not count in the first step.
struct Gap {
  uint32_t instruction = 0;
  plan::Time length = 0;
  plan::Time from = 0; // start of the gap, counted from when the device is free
  bool operator==(const Gap &) const = default;
};

/// By rank, in the order of instructions: the gaps above 0. Programs must not be rolled, and ranks must not have
/// shards. `quiet`: a gap is the longest part of the wait in which no collective of the rank runs in any step. Steps
/// are simulated until they repeat, at most 64.
Status gapsOf(const plan::Variant &variant, bool quiet, std::vector<std::vector<Gap>> &gaps);

} // namespace pipec::jobs
