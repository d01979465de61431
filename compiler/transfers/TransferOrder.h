// In which order transfers that share queues are best put: orders to choose from, the fast judgement of each, and where
// transfers then stand among the passes of their ranks. Plain arrays, no IR: a pass fills them in, and asks the
// simulator about what comes out.
#pragma once

#include "compiler/transfers/Traffic.h"

#include <functional>
#include <vector>

namespace pipec {

/// All nodes, each behind what it needs: what is put in this order cannot wait for each other in a cycle.
using TransferOrder = std::vector<Traffic::Node>;

/// First start to last end if every queue serves its transfers in this order, each as soon as what it carries is there
/// and what stands before it on both its queues is done. O(n).
plan::Time makespanOf(const Traffic &traffic, const TransferOrder &order);

/// PyTorch's order (`_add_send_recv`): sweeps over the ranks, in each of which a rank runs its next pass if what it
/// takes has been sent, and sends what it gives at once. Knows no times. Empty if the passes wait for each other in a
/// cycle. O(n) and the sweeps.
TransferOrder bySweep(const Traffic &traffic);

/// Serves queues by time: as soon as both queues of a transfer are free that has something to carry, it starts; of
/// several, the one with the longest chain of passes behind it. Greedy, and no bound says how far from the best.
/// `any` is any order of the nodes. O(n log n).
TransferOrder byTime(const Traffic &traffic, const TransferOrder &any);

/// What pipe-overlap-communication takes, of `byWords` (orders that know no times, those that repeat most first; not
/// empty), PyTorch's, and some by time: the one with the least price (runtime/simulate/Price.h). None whose makespan is
/// longer than that of PyTorch's order; and of what comes later only what saves a 256th, by time a hundredth. An order
/// is made when its turn comes, and not at all where no order could save as much.
using MakeOrder = std::function<TransferOrder()>;
TransferOrder bestOrder(const Traffic &traffic, const std::vector<MakeOrder> &byWords);

/// Each rank's part of an order.
Rows rowsOf(const Traffic &traffic, const TransferOrder &order);

} // namespace pipec
