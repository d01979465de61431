// What overlapped pairs cannot save.
#pragma once

#include "compiler/schedule/bounds/BoundsView.h"

namespace pipec::schedule::bounds {

/// LB2 and LB10 where passes may overlap: what runs before a rank's first backward, or after its last forward, is in no
/// pair. `view`: of the problem as it is, no pass shorter.
void apartAtTheEnds(const Problem &problem, const View &view, Best &best);

/// LB7 where passes may overlap: a pair saves time on its rank, but what it takes part in comes back later and is held
/// for longer. Uses the best span so far.
void pairsAndArea(const Problem &problem, const View &view, Best &best);

} // namespace pipec::schedule::bounds
