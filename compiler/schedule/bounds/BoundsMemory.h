// The arguments of the lower bounds that need a memory limit, each proven where it is defined.
#pragma once

#include "compiler/schedule/bounds/BoundsView.h"

namespace pipec::schedule::bounds {

/// LB6: of one stage, the chain of microbatches each of which waits for what an earlier one frees.
void memoryChain(const View &view, Best &best);

/// LB6 where microbatches on their way down and back have to pass each other.
void crossings(const View &view, Best &best);

/// LB7: what microbatches hold, times how long they must, over what a rank may hold.
void area(const View &view, Best &best);

/// LB2, LB6 and LB10 of a rank as a whole: when memory leaves it nothing to do, at the start, between and at the end.
void windows(const View &view, Best &best);

/// LB7 and work of a rank of several stages as one linear program: what it can hold and run at most in a given time.
void prices(const View &view, Best &best);

/// LB6 of a rank of two stages that holds few microbatches: the shortest of all its words. True: no argument about this
/// rank alone proves more.
bool words(const View &view, Best &best);

/// LB6 of ranks with two stages.
void returns(const View &view, Best &best);

} // namespace pipec::schedule::bounds
