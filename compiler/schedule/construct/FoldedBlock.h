// Building blocks of V placement at unequal costs. There each rank has four streams of passes, F and B of its two
// stages: two streams go down the ranks, two go up. The block says where in the interval each stream stands on each
// rank, so that streams wait for each other least.
#pragma once

#include "compiler/schedule/construct/ListSchedule.h"
#include "compiler/schedule/model/Block.h"

#include <optional>

namespace pipec::schedule {

/// Whether each rank holds two stages, one on the way down the ranks and one on the way back.
bool isFolded(const Problem &problem);

/// A block whose interval is the work of the busiest rank. Lengths are rounded to slots; of all such blocks it is one
/// whose microbatches wait least. None where it does not fit, or looking for it takes too long. O(ranks · interval^3).
/// Needs isFolded(problem) and a capacity for each rank.
std::optional<Block> foldedBlock(const Problem &problem, const Capacities &capacities);

} // namespace pipec::schedule
