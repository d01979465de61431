// Whether the cells of an order file run to their end, by order alone, without programs or times.
#pragma once

#include "compiler/torch/OrderProof.h"

namespace pipec::emit {

/// Whether compute_comms cells that have passed checkCells run to their end. Same rules as the simulation of
/// OrderProof.h, in a sixth of its time, but without a reason if the cells stop. O(cells).
bool flows(const schedule::OrderCells &cells, const schedule::OrderIndex &index, Communicator communicator);

} // namespace pipec::emit
