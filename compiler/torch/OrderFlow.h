// Whether the cells of an order file run to their end, by order alone: no programs, no times.
#pragma once

#include "compiler/torch/OrderProof.h"

namespace pipec::emit {

/// Whether compute_comms cells that have passed checkCells run to their end, by the same rules as the walk of
/// OrderProof.h in a sixth of its time. Where they stop, it does not say why. O(cells).
bool flows(const schedule::OrderCells &cells, const schedule::OrderIndex &index, Communicator communicator);

} // namespace pipec::emit
