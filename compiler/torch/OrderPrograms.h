// The cells of a compute_comms file as a plan's programs: instruction i of a rank is cell i of its row. OrderProof.h
// explains the waits. Internal to compiler/torch.
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
  /// Programs for the simulation, not for the rules of plans: every cell takes 1 ps, except that WAIT and FSDP's cells
  /// are optimizer steps that take no time.
  plan::Variant variant;

private:
  void add(size_t rank);
  uint32_t queueOf(const schedule::Cell &cell);
  uint32_t operationOf(const schedule::Cell &cell);

  const schedule::OrderCells &cells;
  const schedule::OrderIndex &index;
  const Communicator communicator;
  static constexpr uint32_t kNone = ~uint32_t(0);
  std::vector<uint32_t> place;    // by stage: its index on its rank
  std::vector<uint32_t> stagesOf; // by rank: number of its stages
  // State for the rank that is being added.
  plan::Program *program = nullptr;
  std::map<std::pair<int32_t, int>, uint32_t> communicators; // queue by communicator key
  std::vector<uint32_t> operations;                          // by index of the stage on the rank, and action
};

/// One place where an order that stops is blocked: the cell at `place` must come after the cell at `first`, or (first
/// == place) is a WAIT_SEND that comes too early.
struct OrderBehind {
  size_t rank = 0;
  uint32_t place = 0, first = 0;
};

/// How far the simulation runs cells that have passed checkCells.
struct OrderRun {
  bool ends = false;
  size_t done = 0;                 // cells done before it stops
  std::vector<OrderBehind> behind; // places of the cycle in which it stops
};
OrderRun runOrder(const schedule::OrderCells &cells, const schedule::OrderIndex &index, Communicator communicator);

/// Suggests how an order that stops could end: cells moved, another queue model, or transfers left to PyTorch; each
/// suggestion has been tried. Empty if nothing simple helps.
std::string mendOrder(const schedule::OrderCells &cells, Communicator communicator);

} // namespace pipec::emit
