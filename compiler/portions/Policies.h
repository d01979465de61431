// The policies of Choose.h, one function each.
#pragma once

#include "compiler/portions/Least.h"

namespace pipec::portions {

/// Each returns the portions of a policy. `lower` is set by policies that search, `shortage` by those that consider
/// memory.
Chosen chooseAuto(const Group &group, int64_t most, Solver &solver);
Chosen chooseMigrate(const Group &group, Solver &solver);
Chosen chooseEven(const Group &group);
Chosen chooseResize(const Group &group, const Balance &balance);
Chosen chooseSemi(const Group &group, int64_t part, Solver &solver);

} // namespace pipec::portions
