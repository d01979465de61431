// The proof that an order file ends as PyTorch runs it: its cells become a plan's programs, over which the simulator's
// walk (runtime/simulate) goes.
//
// Why this is sound for _PipelineScheduleRuntime (facts of releases 2.8 to 2.15). Each rank walks its row. A pass holds
// the row until it is done: on a GPU the compute stream runs in order, on a host the call returns only then; so passes
// are the compute queue, in the row's order. A RECV is waited for right before the pass that takes it: that pass waits
// for the RECV. A WAIT_SEND holds the row (Gloo) or the compute stream (NCCL) until its SEND has ended: an instruction
// of the compute queue that waits for the SEND. A SEND or RECV is issued when the row comes to it, and its
// communicator's stream first waits for the compute stream as it is then: so it waits for all that stands before it in
// its row on the compute queue, and for the transfers before it on its communicator, and a SEND ends only while its
// RECV runs (rendezvous: NCCL promises no buffer). Which transfers share a communicator's stream, the queue model
// (Communicator below) says. FSDP's cells run on communicators of their own and hold up nothing here. Nothing chooses,
// so if this walk ends every run ends, and if it stops, every run on that model does.
//
// PyTorch places the transfers of a compute_only file itself: into both rows at once, as it sweeps over all ranks, so
// rows are projections of one order of all transfers and end whenever the passes do not wait for each other in a cycle.
// There each flow between two ranks has a queue of its own in the order in which its tensors are made, and no transfer
// waits for more than its tensor.
#pragma once

#include "compiler/torch/OrderRules.h"

#include <string>
#include <vector>

namespace pipec::emit {

/// What shares a transfer queue of a rank: nothing but a directed pair, both directions of a pair, or everything. In
/// launch order queues are of directed pairs, and transfers of a rank start in the order of its row (simulate::Launch).
enum class Communicator : uint8_t { PerEdge, PerPair, LaunchOrder, Shared };
/// Whether each direction has a queue of its own.
inline bool isByDirection(Communicator communicator) {
  return communicator == Communicator::PerEdge || communicator == Communicator::LaunchOrder;
}
/// "per_edge"
const char *name(Communicator communicator);

/// A place, both from 1; line 0: of the file as a whole.
struct OrderNote {
  int line = 0, column = 0;
  std::string message;
};

struct OrderStop {
  schedule::OrderError error;
  std::vector<OrderNote> notes; // the cycle, cell by cell, and what would mend it
};

/// Walks cells that have passed checkCells. False if they stop; `stop` then says where. O(cells), and some more walks
/// to find out what would mend the order.
bool proveOrder(const schedule::OrderCells &cells, const schedule::OrderIndex &index, Communicator communicator,
                OrderStop &stop);

/// How long a step of an order lasts where costs are not known: a pass takes 1, a whole backward 2, all else nothing.
struct OrderTime {
  int64_t units = 0;
  double bubble = 0; // idle share of all ranks' time
};
/// Of cells that end.
OrderTime timeOrder(const schedule::OrderCells &cells, const schedule::OrderIndex &index, Communicator communicator);

} // namespace pipec::emit
