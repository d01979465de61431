// The cells of a compute_comms file as a plan's programs: instruction i of a rank is cell i of its row. Why they wait
// as they do stands in OrderProof.h. Internal to compiler/torch.
#pragma once

#include "compiler/torch/OrderProof.h"
#include "runtime/plan/Plan.h"

#include <map>
#include <utility>
#include <vector>

namespace pipec::emit {

class OrderPrograms {
public:
  OrderPrograms(const schedule::OrderCells &cells, const schedule::OrderIndex &index, Communicator communicator);

  /// queues[r][q] are the cells on queue q of rank r, in order; queue 0 is the compute queue.
  std::vector<std::vector<std::vector<uint32_t>>> queues;
  /// Fit for the walk, not for the rules of plans: every cell takes 1 ps, except that WAIT and FSDP's cells stand as
  /// optimizer steps that take no time.
  plan::Variant variant;

private:
  void add(size_t rank);
  uint32_t queueOf(const schedule::Cell &cell);
  uint32_t operationOf(const schedule::Cell &cell);

  const schedule::OrderCells &cells;
  const schedule::OrderIndex &index;
  const Communicator communicator;
  static constexpr uint32_t kNone = ~uint32_t(0);
  std::vector<uint32_t> place;    // of a stage among its rank's
  std::vector<uint32_t> stagesOf; // how many a rank has
  // Of the rank at hand.
  plan::Program *program = nullptr;
  std::map<std::pair<int32_t, int>, uint32_t> communicators; // by what shares a communicator
  std::vector<uint32_t> operations;                          // by place of the stage, and action
};

/// In an order that stops, one place where a row holds it up: the cell at `place` has to stand behind the one at
/// `first`, or (first == place) is a WAIT_SEND that comes too early.
struct OrderBehind {
  size_t rank = 0;
  uint32_t place = 0, first = 0;
};

/// How far cells that have passed checkCells run in the walk.
struct OrderRun {
  bool ends = false;
  size_t done = 0;                 // cells, where it stops
  std::vector<OrderBehind> behind; // of the cycle in which it stops
};
OrderRun runOrder(const schedule::OrderCells &cells, const schedule::OrderIndex &index, Communicator communicator);

/// What would let an order end that stops: cells moved, another queue model, or transfers left to PyTorch; each has
/// been tried. Empty if nothing simple does.
std::string mendOrder(const schedule::OrderCells &cells, Communicator communicator);

} // namespace pipec::emit
