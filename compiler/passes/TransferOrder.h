// In which order transfers that share queues are best put: orders to choose from, the fast judgement of each, and where
// transfers then stand among the passes of their ranks. Plain arrays, no IR: a pass fills them in, and asks the
// simulator about what comes out.
#pragma once

#include "runtime/plan/Plan.h"

#include <cstdint>
#include <vector>

namespace pipec {

/// Passes and transfers as nodes: first the passes of all ranks, rank by rank in the order in which each runs its own,
/// then the transfers.
struct Traffic {
  using Node = uint32_t;
  static constexpr uint32_t kNone = ~uint32_t(0);

  struct Pass {
    plan::Time cost = 0;
    int32_t microbatch = 0;
    uint32_t in = kNone, out = kNone; // transfers: what it takes, what it gives
  };
  struct Move {
    uint32_t producer = 0, consumer = 0; // passes
    uint32_t sends = 0, receives = 0;    // queues, numbered over all ranks
    plan::Time cost = 0, latency = 0;
  };

  std::vector<uint32_t> first = {0}; // pass of each rank, and the end
  std::vector<Pass> passes;
  std::vector<Move> moves;
  uint32_t queues = 0;

  uint32_t ranks() const { return uint32_t(first.size()) - 1; }
  size_t size() const { return passes.size() + moves.size(); }
  bool isMove(Node node) const { return node >= passes.size(); }
  uint32_t moveAt(Node node) const { return node - uint32_t(passes.size()); }
  Node nodeOf(uint32_t move) const { return uint32_t(passes.size()) + move; }
};

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
/// longer than that of PyTorch's order; and of what comes later only what saves a 256th, by time a hundredth.
TransferOrder bestOrder(const Traffic &traffic, std::vector<TransferOrder> byWords);

/// One thing in a rank's row: a pass, or one end of a transfer.
struct Cell {
  enum class Kind : uint8_t { Pass, Send, Recv } kind;
  uint32_t index; // of a pass or a transfer
  bool operator==(const Cell &) const = default;
};
using Rows = std::vector<std::vector<Cell>>;

/// Each rank's part of an order.
Rows rowsOf(const Traffic &traffic, const TransferOrder &order);
/// The same transfers in the same order, passes among them as in a run in which everything takes one step and a rank
/// does a transfer whenever its next one can be done, else its next pass: a receive stands behind the passes that its
/// rank has time for.
Rows packedRowsOf(const Traffic &traffic, const TransferOrder &order);
/// How many steps rows take if every rank does one thing a step, in order: PyTorch's dry run.
int64_t stepsOf(const Traffic &traffic, const Rows &rows);

} // namespace pipec
