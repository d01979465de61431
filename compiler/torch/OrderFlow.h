// Whether the cells of an order file run to their end, by order alone: no programs, no times.
#pragma once

#include "compiler/torch/OrderProof.h"

namespace pipec::emit {

/// Whether compute_comms cells that have passed checkCells end, by the same rules as the walk (OrderProof.h) in a
/// sixth of its time. What stops it does not explain. O(cells).
bool flows(const schedule::OrderCells &cells, const schedule::OrderIndex &index, Communicator communicator);

} // namespace pipec::emit
