// What overlapped pairs cannot save.
#pragma once

#include "compiler/schedule/bounds/BoundsView.h"

namespace pipec::schedule::bounds {

/// LB2 and LB10 where passes may overlap: what runs before a rank's first backward, or after its last forward, is in no
/// pair and takes its whole time. `view`: of the problem with its own costs, not shortened for pairs.
void apartAtTheEnds(const Problem &problem, const View &view, Best &best);

/// LB7 where passes may overlap: a pair saves time on its rank, but its two microbatches come back later, so that
/// memory is held for longer. Uses the best span so far.
void pairsAndArea(const Problem &problem, const View &view, Best &best);

} // namespace pipec::schedule::bounds
