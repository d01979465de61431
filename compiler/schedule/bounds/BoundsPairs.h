// Lower bounds where a forward and a backward may overlap: the time that such pairs cannot save.
#pragma once

#include "compiler/schedule/bounds/BoundsView.h"

namespace pipec::schedule::bounds {

/// LB2 and LB10 where passes may overlap. Passes before a rank's first backward or after its last forward are in no
/// pair and take their whole time. `view` must be made from the problem's own costs, not from costs shortened for
/// pairs.
void apartAtTheEnds(const Problem &problem, const View &view, Best &best);

/// LB7 where passes may overlap. A pair saves time on its rank, but its two microbatches return later, so memory is
/// held for longer. Uses the best bound of the span so far.
void pairsAndArea(const Problem &problem, const View &view, Best &best);

} // namespace pipec::schedule::bounds
