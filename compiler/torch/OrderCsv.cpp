#include "compiler/torch/OrderCsv.h"

#include "compiler/torch/OrderRules.h"

#include <deque>
#include <fmt/format.h>

namespace pipec::schedule {

namespace {

class Import {
public:
  Import(const OrderCells &cells, Order &order, OrderError &error) : cells(cells), order(order), error(error) {}

  bool run(const OrderIndex &index, int32_t slices) {
    order.rankOf = index.rankOf;
    order.microbatches = index.microbatches;
    order.backwardGroup = slices;
    findBackwards();
    return inMicrobatchOrder() && (keepRows(), true);
  }

private:
  bool fail(size_t rank, const Cell &at, std::string message) {
    error = {int(rank) + 1, at.column, std::move(message), true};
    return false;
  }

  /// Which kinds of backward there are, and which way they go.
  void findBackwards() {
    const Cell *first = nullptr;
    for (const auto &row : cells.rows)
      for (const Cell &cell : row) {
        if (cell.action != Action::B && cell.action != Action::I)
          continue;
        if (!first) {
          first = &cell;
          if (cell.microbatch != 0 && cell.microbatch == order.microbatches - 1)
            order.backwardGroup = order.microbatches;
        }
        if (cell.action == Action::I)
          order.backward = BackwardMode::Split; // of which some may be whole
      }
  }

  /// An OVERLAP_F_B pair of an F and a whole backward runs together, any other one after the other.
  bool inMicrobatchOrder() {
    Problem problem;
    problem.microbatches = order.microbatches;
    problem.backwardGroup = order.backwardGroup;
    std::vector<std::array<int32_t, 2>> done(order.rankOf.size(), {0, 0}); // F, and B or BW, of a stage
    std::vector<std::deque<int32_t>> owed(order.rankOf.size());            // W of a stage
    for (size_t rank = 0; rank != cells.rows.size(); ++rank) {
      Word &word = order.words.emplace_back();
      for (size_t at = 0; at != cells.rows[rank].size(); ++at) {
        const Cell &cell = cells.rows[rank][at];
        if (!isPass(cell.action))
          continue;
        std::deque<int32_t> &left = owed[size_t(cell.stage)];
        int32_t expected = 0;
        if (cell.action == Action::W) {
          expected = left.front(); // a W has its B before it, once
          left.pop_front();
        } else {
          const bool forward = cell.action == Action::F;
          const int32_t count = done[size_t(cell.stage)][forward ? 0 : 1]++;
          expected = forward ? count : problem.backwardOf(count);
          if (cell.action == Action::I)
            left.push_back(cell.microbatch);
        }
        if (cell.microbatch != expected)
          return fail(
              rank, cell,
              fmt::format("expected microbatch {} next of this stage and kind, found {}: microbatches run in "
                          "order, or all backwards from the last{}",
                          expected, nameOf(cell),
                          order.backwardGroup > 1 && order.backwardGroup != order.microbatches
                              ? fmt::format("; backwards of {} slices from the last of them", order.backwardGroup)
                              : ""));
        const bool overlapped = cell.opensPair && cells.rows[rank][at + 1].action == Action::B;
        word.push_back({cell.stage, letterOf(*rowOf(cell.action).kind), overlapped});
      }
    }
    return true;
  }

  void keepRows() {
    if (cells.format == OrderFormat::ComputeOnly)
      return;
    for (const auto &row : cells.rows) {
      auto &kept = order.rows.emplace_back();
      for (const Cell &cell : row)
        if (isPass(cell.action) || isTransfer(cell.action) || isWaitSend(cell.action))
          kept.push_back({cell.action, cell.stage, cell.microbatch});
    }
  }

  const OrderCells &cells;
  Order &order;
  OrderError &error;
};

} // namespace

bool readOrder(std::string_view text, Order &order, OrderError &error, const OrderShape &shape) {
  order = {};
  OrderCells cells;
  OrderIndex index;
  if (!readCells(text, cells, error))
    return false;
  const bool isTorchs = shape.copies == 1 && shape.slices == 1;
  if (!isTorchs && cells.format != OrderFormat::ComputeOnly) {
    error = {1, 1,
             "an order of slices or of two copies of the stages has passes alone, found transfers: leave them out",
             true};
    return false;
  }
  cells.copies = shape.copies;
  return checkCells(cells, index, error) && Import(cells, order, error).run(index, shape.slices);
}

} // namespace pipec::schedule
