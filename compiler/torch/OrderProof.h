// Proves that an order file ends as PyTorch runs it: converts its cells to a plan's programs and simulates them
// (runtime/simulate).
//
// Why this is sound for _PipelineScheduleRuntime (facts of releases 2.8 to 2.15): Each rank executes its row in order.
// - A pass blocks the row until it is done: on a GPU the compute stream runs in order, on a host the call returns only
//   then. So passes are the compute queue, in the row's order.
// - A RECV is waited for right before the pass that takes it. So that pass waits for the RECV.
// - A WAIT_SEND blocks the row (Gloo) or the compute stream (NCCL) until its SEND has ended. So it is an instruction of
//   the compute queue that waits for the SEND.
// - A SEND or RECV is issued when the row reaches it. Its communicator's stream first waits for everything issued to
//   the compute stream so far. So it waits for all earlier cells of its row on the compute queue, and for the earlier
//   transfers on its communicator. A SEND ends only while its RECV runs (rendezvous: NCCL promises no buffer).
// - The queue model (Communicator below) says which transfers share a communicator's stream.
// - FSDP's cells run on separate communicators and block nothing here.
// Nothing in these rules is a choice. So if this simulation ends, every run ends, and if it stops, every run on that
// model stops.
//
// PyTorch itself places the transfers of a compute_only file: it adds each transfer to both rows at once while it
// sweeps over all ranks. So rows are projections of one order of all transfers, and end whenever the passes alone do
// not deadlock. Each flow between two ranks then has a separate queue, in the order in which its tensors are made, and
// a transfer waits only for its tensor.
#pragma once

#include "compiler/torch/OrderRules.h"

#include <string>
#include <vector>

namespace pipec::emit {

/// Which transfers share a queue of a rank: those of a directed pair, those of both directions of a pair, or all. In
/// launch order each directed pair has a queue, and transfers of a rank start in the order of its row
/// (simulate::Launch).
enum class Communicator : uint8_t { PerEdge, PerPair, LaunchOrder, Shared };
/// Whether each direction has a separate queue.
inline bool isByDirection(Communicator communicator) {
  return communicator == Communicator::PerEdge || communicator == Communicator::LaunchOrder;
}
/// "per_edge"
const char *name(Communicator communicator);

/// A place, line and column from 1; line 0: the file as a whole.
struct OrderNote {
  int line = 0, column = 0;
  std::string message;
};

struct OrderStop {
  schedule::OrderError error;
  std::vector<OrderNote> notes; // the cycle, cell by cell, and what would help
};

/// Simulates cells that have passed checkCells. False if they stop; `stop` then says where. O(cells), plus some
/// simulations to find what would help.
bool proveOrder(const schedule::OrderCells &cells, const schedule::OrderIndex &index, Communicator communicator,
                OrderStop &stop);

/// The length of a step of an order without known costs: a pass takes 1 unit, a whole backward 2, everything else 0.
struct OrderTime {
  int64_t units = 0;
  double bubble = 0; // idle fraction of all ranks' time
};
/// The length of a step. Needs cells that run to their end.
OrderTime timeOrder(const schedule::OrderCells &cells, const schedule::OrderIndex &index, Communicator communicator);

} // namespace pipec::emit
