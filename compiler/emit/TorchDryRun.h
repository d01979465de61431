// Rows of an order file in PyTorch's dry run, in which everything takes one step (compiler/passes/DryRun.h).
#pragma once

#include "compiler/passes/DryRun.h"
#include "compiler/schedule/OrderCells.h"

#include <vector>

namespace pipec::emit {

/// Passes and transfers of each rank.
using CellRows = std::vector<std::vector<schedule::Cell>>;

class TorchDryRun {
public:
  /// `rows` are parts of one order, every transfer with both its ends.
  explicit TorchDryRun(const CellRows &rows);

  int64_t steps() const { return stepsOf(traffic, numbered); }
  CellRows packed(Overtaking overtaking) const;

private:
  Traffic traffic;
  Rows numbered;
  std::vector<const schedule::Cell *> cellOfPass;
  std::vector<const schedule::Cell *> send, recv; // of a transfer
};

} // namespace pipec::emit
