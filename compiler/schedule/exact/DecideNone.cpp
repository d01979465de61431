// Without a solver nothing is decided.
#include "compiler/schedule/exact/Decide.h"

namespace pipec::schedule {

bool canDecide() { return false; }

Decided decide(const Problem &, const Capacities &, const Question &, Words &) { return Decided::OutOfTime; }

} // namespace pipec::schedule
