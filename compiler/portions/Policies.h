// The policies of Choose.h, a function each.
#pragma once

#include "compiler/portions/Least.h"

namespace pipec::portions {

/// Portions of a policy, `lower` where it searches, and a shortage where it looks at memory.
Chosen chooseAuto(const Group &group, int64_t most, Solver &solver);
Chosen chooseMigrate(const Group &group, Solver &solver);
Chosen chooseEven(const Group &group);
Chosen chooseResize(const Group &group, const Balance &balance);
Chosen chooseSemi(const Group &group, int64_t part, Solver &solver);

} // namespace pipec::portions
