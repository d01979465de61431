// What must hold of an order file whose cells can be read, as far as that can be seen without running it: everything
// that PyTorch's loader lets through and of which its runtime then dies, or, which is worse, computes wrongly. Each
// rule is one function with one message. Whether the order ends, the walk says (compiler/torch/OrderProof.h).
#pragma once

#include "compiler/torch/OrderCells.h"

#include <array>

namespace pipec::schedule {

/// Where each action stands.
class OrderIndex {
public:
  static constexpr uint32_t kNowhere = ~uint32_t(0);

  int32_t stages = 0, microbatches = 0;
  std::vector<int32_t> rankOf; // stage → rank

  /// Index in its rank's row of an action of a stage and microbatch; kNowhere if it has none.
  uint32_t at(Action action, int32_t stage, int32_t microbatch) const {
    const std::vector<uint32_t> &known = places[size_t(action)];
    return known.empty() ? kNowhere : known[size_t(stage) * size_t(microbatches) + size_t(microbatch)];
  }
  /// The same as a reference, to be set.
  uint32_t &place(const Cell &cell);
  /// B, or I where there is no B.
  uint32_t backward(int32_t stage, int32_t microbatch) const;

private:
  std::array<std::vector<uint32_t>, size_t(Action::Unshard)> places; // of each action that is of a microbatch
};

/// Checks cells by every rule. False after an error, which then is `readable`. O(cells).
bool checkCells(const OrderCells &cells, OrderIndex &index, OrderError &error);

} // namespace pipec::schedule
