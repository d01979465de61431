// A split backward costs more than a whole one. Where a W follows its B directly, both may run as one whole backward
// (BW), unless another stage waits for the gradient, which a BW sends only at its end.
#pragma once

#include "compiler/schedule/model/Objective.h"
#include "compiler/schedule/model/Problem.h"

namespace pipec::schedule {

/// The words with BW in place of adjacent B and W wherever the objective's time does not grow; of several choices, the
/// best that is found. Needs a problem with split backwards in which a BW takes no longer than B and W, and words that
/// pass verify.
Words fuseBackwards(const Problem &problem, const Words &words, Objective objective);

} // namespace pipec::schedule
