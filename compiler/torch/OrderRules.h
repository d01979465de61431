// The rules of an order file with readable cells, as far as they can be checked without running the order: everything
// that PyTorch's loader accepts but that makes its runtime crash or, worse, compute wrong results. Each rule is one
// function with one message. The simulation says whether the order ends (compiler/torch/OrderProof.h).
#pragma once

#include "compiler/torch/OrderCells.h"

#include <array>

namespace pipec::schedule {

/// The place of each action in its row.
class OrderIndex {
public:
  static constexpr uint32_t kNowhere = ~uint32_t(0);

  int32_t stages = 0, microbatches = 0;
  std::vector<int32_t> rankOf; // stage → rank

  /// Index of an action of a stage and microbatch in its rank's row; kNowhere if there is none.
  uint32_t at(Action action, int32_t stage, int32_t microbatch) const {
    const std::vector<uint32_t> &known = places[size_t(action)];
    return known.empty() ? kNowhere : known[size_t(stage) * size_t(microbatches) + size_t(microbatch)];
  }
  /// The same as a reference, for setting.
  uint32_t &place(const Cell &cell);
  /// The place of B or, if there is no B, of I.
  uint32_t backward(int32_t stage, int32_t microbatch) const;

private:
  std::array<std::vector<uint32_t>, size_t(Action::Unshard)> places; // by action, for actions of a microbatch
};

/// Checks cells by every rule. False after an error, which then has `readable` set. O(cells).
bool checkCells(const OrderCells &cells, OrderIndex &index, OrderError &error);

} // namespace pipec::schedule
