// When the devices of a plan wait, in its own times.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <vector>

namespace pipec::jobs {

/// How long a rank's device waits for an instruction of its compute queue that has waits: in every step of a run so
/// long at least. What stands first of all in a run is not asked for its first step.
struct Gap {
  uint32_t instruction = 0;
  plan::Time length = 0;
  plan::Time from = 0; // after the device is free
  bool operator==(const Gap &) const = default;
};

/// Of each rank, by instruction, those above 0. Programs are not rolled, ranks have no shards. `quiet`: a gap is
/// the longest part of the wait in which no collective of the rank is under way in any step. Steps are looked at until
/// they repeat, 64 at most.
Status gapsOf(const plan::Variant &variant, bool quiet, std::vector<std::vector<Gap>> &gaps);

} // namespace pipec::jobs
