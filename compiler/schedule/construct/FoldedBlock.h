// Building blocks of V placement at unequal costs: where the four streams of forwards and backwards, two down the ranks
// and two up, stand in the interval on each rank, so that they wait for each other least.
#pragma once

#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/model/Block.h"

#include <optional>

namespace pipec::schedule {

/// Whether each rank holds two stages, one on the way down the ranks and one on the way back.
bool isFolded(const Problem &problem);

/// A block whose interval is the work of the busiest rank, in slots that all passes' lengths are rounded to; of all
/// such blocks one whose microbatches wait least. None where it does not fit, or looking for it takes too long. O(ranks
/// · interval^3). Needs isFolded(problem) and a capacity for each rank.
std::optional<Block> foldedBlock(const Problem &problem, const Capacities &capacities);

} // namespace pipec::schedule
