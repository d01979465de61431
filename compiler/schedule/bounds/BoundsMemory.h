// The arguments of the lower bounds that need a memory limit. Each function states and proves its argument in full at
// its definition. LB2 to LB10 are numbers of arguments; several functions may share a number, each for a case in which
// more can be proven.
#pragma once

#include "compiler/schedule/bounds/BoundsView.h"

namespace pipec::schedule::bounds {

/// LB6, memory chain: a chain of microbatches on one stage, in which each microbatch can start only after an earlier
/// microbatch has freed its memory.
void memoryChain(const View &view, Best &best);

/// LB6, crossings: a microbatch going down the stages and another one coming back meet on a rank, and one of the two
/// has to wait.
void crossings(const View &view, Best &best);

/// LB7, area: the bytes that microbatches hold on a rank, multiplied by the least time they hold them, divided by the
/// rank's capacity.
void area(const View &view, Best &best);

/// LB2, LB6 and LB10 combined for a rank: how long memory forces the rank to idle at the start of its step, in the
/// middle and at the end.
void windows(const View &view, Best &best);

/// LB7 and the rank's work as one linear program, for a rank with several stages: the most that the rank can hold and
/// run in a given time.
void prices(const View &view, Best &best);

/// LB6 for a rank with two stages that holds few microbatches: the shortest word that the rank could run, found by
/// enumeration. Returns true if the enumeration was complete; then no other argument about this rank alone proves more.
bool words(const View &view, Best &best);

/// LB6 for ranks with two stages: the earliest time at which memory lets each microbatch begin the rank's second stage.
void returns(const View &view, Best &best);

} // namespace pipec::schedule::bounds
