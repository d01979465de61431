// The order of transfers that share queues: ways to make one, a fast judge of each, and where transfers then stand
// among the passes of their ranks. Plain arrays, no IR: the pass pipe-overlap-communication fills them in, and asks the
// simulator about the result.
#pragma once

#include "compiler/transfers/Traffic.h"

#include <functional>
#include <vector>

namespace pipec {

/// All nodes of the traffic, each behind those that it needs: queues that serve transfers in this order cannot wait for
/// each other in a cycle.
using TransferOrder = std::vector<Traffic::Node>;

/// From first start to last end if every queue serves its transfers in this order, each as soon as its data are there
/// and those before it on both its queues are done. O(n).
plan::Time makespanOf(const Traffic &traffic, const TransferOrder &order);

/// PyTorch's order (`_add_send_recv`), which knows no times. It sweeps over the ranks; in each sweep a rank runs its
/// next pass if that pass's input has been sent, and sends the pass's result at once. Empty if the passes wait for each
/// other in a cycle. O(n) and the sweeps.
TransferOrder bySweep(const Traffic &traffic);

/// Serves queues by time: a transfer starts as soon as its data are there and both its queues are free; of several, the
/// one with the longest chain of passes behind it. Greedy; no bound says how far from the best it is. `any` is any
/// order of the nodes. O(n log n).
TransferOrder byTime(const Traffic &traffic, const TransferOrder &any);

/// The order that pipe-overlap-communication takes: the one with the least price (runtime/simulate/Price.h) of
/// `byWords` (orders that know no times, those that repeat most first; not empty), PyTorch's, and some by time, tried
/// in this sequence. None is taken whose makespan is longer than that of PyTorch's order. A later one must save a 256th
/// to be taken, one by time a hundredth. An order is made when its turn comes, and not at all where none could save so
/// much.
using MakeOrder = std::function<TransferOrder()>;
TransferOrder bestOrder(const Traffic &traffic, const std::vector<MakeOrder> &byWords);

/// Each rank's part of an order.
Rows rowsOf(const Traffic &traffic, const TransferOrder &order);

} // namespace pipec
