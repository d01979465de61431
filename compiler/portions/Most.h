// How many units `auto` keeps if it may leave some out.
#pragma once

#include "compiler/portions/Least.h"

namespace pipec::portions {

/// The units to keep of each split, in the order of splitsOf. A split keeps as many units as fit into its healthy time
/// (no slow shard, equal portions). If the least time of ceil(units x (1 - most)) units is longer, the split keeps as
/// many units as fit into that time. The time of a split is that of its passes in a step, with everything between the
/// same sums; W and other passes without sums count for the split alone.
std::vector<int64_t> keptUnits(const Group &group, int64_t most, Solver &solver);

/// ceil(units x (1 - part)); part in millionths.
int64_t leftOf(int64_t units, int64_t part);

} // namespace pipec::portions
