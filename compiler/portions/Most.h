// How many units `auto` keeps where some may be left out.
#pragma once

#include "compiler/portions/Least.h"

namespace pipec::portions {

/// Of each split, by splitsOf: as many units as fit in its healthy time (no slow shard, equal portions), or if that is
/// more in the least time with the fewest units that may be kept, ceil(units x (1 - most)). A split's time is that of
/// all its passes of a step with what stands between the same sums, its W and what has no sum for itself alone.
std::vector<int64_t> keptUnits(const Group &group, int64_t most, Solver &solver);

/// ceil(units x (1 - part)); part in millionths.
int64_t leftOf(int64_t units, int64_t part);

} // namespace pipec::portions
