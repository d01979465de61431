#include "compiler/torch/OrderRules.h"

#include "compiler/torch/OrderRule.h"

namespace pipec::schedule {

uint32_t &OrderIndex::place(const Cell &cell) {
  std::vector<uint32_t> &known = places[size_t(cell.action)];
  if (known.empty())
    known.resize(size_t(stages) * size_t(microbatches), kNowhere);
  return known[size_t(cell.stage) * size_t(microbatches) + size_t(cell.microbatch)];
}

uint32_t OrderIndex::backward(int32_t stage, int32_t microbatch) const {
  uint32_t whole = at(Action::B, stage, microbatch);
  return whole != kNowhere ? whole : at(Action::I, stage, microbatch);
}

bool checkCells(const OrderCells &cells, OrderIndex &index, OrderError &error) {
  index = {};
  return checkPasses(cells, index, error) &&
         (cells.format == OrderFormat::ComputeOnly ||
          (checkTransfers(cells, index, error) && checkRelease(cells, index, error)));
}

} // namespace pipec::schedule
