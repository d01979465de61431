// A variant's passes and transfers as plain arrays, and the rows in which an order file may have them.
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

  /// In the order of the plan.
  const Rows &issued() const { return rows; }
  /// In the order of the predicted run: a pass by when it ends, a transfer by when it starts. `run`: that run with its
  /// visits (when each instruction runs); null: the variant is walked.
  Rows predicted(const simulate::Result *run) const;

  /// `rows` with a quicker start: while the pipeline begins to fill, each rank sends what a pass yields before it
  /// receives what the next one needs, so that the wave of first forwards is not held up. Done for three tenths of the
  /// way to the first backward, which shortens PyTorch's dry run more than it lengthens the step.
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
