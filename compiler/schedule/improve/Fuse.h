// A backward that is split costs more than one that is not. Where a W stands right behind its B, both may as well run
// as one whole backward (BW), unless somebody waits for the gradient, which leaves when the whole is done.
#pragma once

#include "compiler/schedule/model/Objective.h"
#include "compiler/schedule/model/Problem.h"

namespace pipec::schedule {

/// The words with whole backwards in place of such B and W where the objective's time does not get longer; of several
/// choices the best that is found. Needs a split problem, whose whole backwards take no longer than B and W, and words
/// that verify accepts.
Words fuseBackwards(const Problem &problem, const Words &words, Objective objective);

} // namespace pipec::schedule
