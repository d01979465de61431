// A variant's passes and transfers as plain arrays, and rows of them for an order file.
#pragma once

#include "compiler/torch/OrderCells.h"
#include "compiler/transfers/Traffic.h"
#include "runtime/plan/Plan.h"
#include "runtime/simulate/Simulate.h"

#include <vector>

namespace pipec::emit {

/// Passes and transfers of each rank.
using CellRows = std::vector<std::vector<schedule::Cell>>;

class TorchRows {
public:
  explicit TorchRows(const plan::Variant &variant);

  /// The rows in the order of the plan.
  const Rows &issued() const { return rows; }
  /// The rows in the order of the predicted run: a pass by its end, a transfer by its start. `run`: that run with its
  /// visits (when each instruction runs); null: the variant is simulated here.
  Rows predicted(const simulate::Result *run) const;

  /// `rows` with a quicker start: while the pipeline begins to fill, each rank sends what a pass yields before it
  /// receives what the next pass needs, so that the wave of first forwards is not delayed. This is done for the first
  /// three tenths of the way to the first backward, which shortens PyTorch's dry run more than it lengthens the step.
  Rows quickStart(const Rows &rows) const;

  CellRows cellsOf(const Rows &rows) const;
  /// Whether some passes run in overlapped pairs.
  bool hasPairs() const;

  Traffic traffic;

private:
  const plan::Variant &variant;
  Rows rows;
  static constexpr uint32_t kNoCell = ~uint32_t(0);
  std::vector<std::vector<uint32_t>> cellAt;           // by rank and instruction executed: index into its row
  std::vector<schedule::Cell> passes, sends, receives; // as cells
};

} // namespace pipec::emit
