// The arguments of the lower bounds that need a memory limit, each stated in full and proven where it is defined. LB2
// to LB10 are their numbers; one number may have several functions, each for a case in which more can be proven.
#pragma once

#include "compiler/schedule/bounds/BoundsView.h"

namespace pipec::schedule::bounds {

/// LB6, memory chain: on one stage, microbatches each of which can only start when an earlier one has freed its memory.
void memoryChain(const View &view, Best &best);

/// LB6, where a microbatch on its way down the stages and another on its way back meet on a rank, and one has to wait.
void crossings(const View &view, Best &best);

/// LB7, area: the bytes that microbatches hold on a rank times how long they must, divided by what the rank may hold.
void area(const View &view, Best &best);

/// LB2, LB6 and LB10 together, for a rank as a whole: how long memory leaves the rank nothing to do at the start of its
/// step, in the middle and at the end.
void windows(const View &view, Best &best);

/// LB7 and the rank's work as one linear program, for a rank of several stages: what it can hold and run at most in a
/// given time.
void prices(const View &view, Best &best);

/// LB6 for a rank of two stages that holds few microbatches: the shortest of all words that the rank could run, by
/// going through them. True: all were gone through, so no other argument about this rank alone proves more.
bool words(const View &view, Best &best);

/// LB6 for ranks of two stages: the earliest time at which memory lets each microbatch begin the rank's second stage.
void returns(const View &view, Best &best);

} // namespace pipec::schedule::bounds
