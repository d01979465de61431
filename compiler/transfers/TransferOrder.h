// The order of transfers that share queues: several ways to make an order, a fast evaluation of each, and the places of
// transfers among the passes of their ranks. Plain arrays, no IR: the pass pipe-overlap-communication fills them in,
// and simulates the result.
#pragma once

#include "compiler/transfers/Traffic.h"

#include <functional>
#include <vector>

namespace pipec {

/// All nodes of the traffic, each after the nodes that it needs. Queues that serve transfers in this order cannot
/// deadlock.
using TransferOrder = std::vector<Traffic::Node>;

/// The time from first start to last end if every queue serves its transfers in this order, each as soon as its data is
/// ready and the transfers before it on both its queues are done. O(n).
plan::Time makespanOf(const Traffic &traffic, const TransferOrder &order);

/// PyTorch's order (`_add_send_recv`), which ignores times. It sweeps over the ranks; in each sweep a rank runs its
/// next pass if that pass's input has been sent, and sends the pass's result at once. Empty if the passes deadlock.
/// O(n) plus the sweeps.
TransferOrder bySweep(const Traffic &traffic);

/// Serves queues by time: a transfer starts as soon as its data is ready and both its queues are free; of several
/// transfers, the one with the longest chain of following passes goes first. Greedy, without a guarantee. `any`: any
/// order of the nodes. O(n log n).
TransferOrder byTime(const Traffic &traffic, const TransferOrder &any);

/// The order for pipe-overlap-communication: the one with the least price (runtime/simulate/Price.h). Candidates, in
/// this sequence: `byWords` (orders that ignore times, those that repeat most first; not empty), PyTorch's order, and
/// some orders by time. No order with a longer makespan than PyTorch's order is taken. A later order must save a 256th
/// to be taken, an order by time a hundredth. An order is made only when its turn comes, and only if an order could
/// save that much.
using MakeOrder = std::function<TransferOrder()>;
TransferOrder bestOrder(const Traffic &traffic, const std::vector<MakeOrder> &byWords);

/// Each rank's part of an order.
Rows rowsOf(const Traffic &traffic, const TransferOrder &order);

} // namespace pipec
