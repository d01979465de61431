#include "compiler/schedule/OrderCsv.h"

#include "compiler/schedule/OrderRules.h"

#include <fmt/format.h>

namespace pipec::schedule {

namespace {

class Import {
public:
  Import(const OrderCells &cells, Order &order, OrderError &error) : cells(cells), order(order), error(error) {}

  bool run(const OrderIndex &index) {
    order.rankOf = index.rankOf;
    order.microbatches = index.microbatches;
    return noPairs() && oneKindOfBackward() && inMicrobatchOrder() && (keepRows(), true);
  }

private:
  bool fail(size_t rank, const Cell &at, std::string message) {
    error = {int(rank) + 1, at.column, std::move(message), true};
    return false;
  }

  bool noPairs() {
    for (size_t rank = 0; cells.pairs && rank != cells.rows.size(); ++rank)
      for (const Cell &cell : cells.rows[rank])
        if (cell.opensPair)
          return fail(rank, cell, "overlapped pairs can be verified, but are not supported yet in a spec's order");
    return true;
  }

  bool oneKindOfBackward() {
    const Cell *first = nullptr;
    for (size_t rank = 0; rank != cells.rows.size(); ++rank)
      for (const Cell &cell : cells.rows[rank]) {
        if (cell.action != Action::B && cell.action != Action::I)
          continue;
        if (!first) { // it also says which way they go
          first = &cell;
          order.backward = cell.action == Action::B ? BackwardMode::Fused : BackwardMode::Split;
          order.lastMicrobatchFirst = cell.microbatch != 0 && cell.microbatch == order.microbatches - 1;
        }
        if (cell.action != first->action)
          return fail(rank, cell, "whole (B) and split (I, W) backwards in one order are not supported yet");
      }
    return true;
  }

  bool inMicrobatchOrder() {
    std::vector<std::array<int32_t, 3>> done(order.rankOf.size(), {0, 0, 0}); // F, B or BW, W of a stage
    for (size_t rank = 0; rank != cells.rows.size(); ++rank) {
      Word &word = order.words.emplace_back();
      for (const Cell &cell : cells.rows[rank]) {
        if (!isPass(cell.action))
          continue;
        const size_t kind = cell.action == Action::F ? 0 : cell.action == Action::W ? 2 : 1;
        int32_t &count = done[size_t(cell.stage)][kind];
        const int32_t expected = kind != 0 && order.lastMicrobatchFirst ? order.microbatches - 1 - count : count;
        if (cell.microbatch != expected)
          return fail(rank, cell,
                      fmt::format("expected microbatch {} next of this stage and kind, found {}: microbatches run in "
                                  "order, or all backwards from the last",
                                  expected, nameOf(cell)));
        ++count;
        constexpr Letter kLetters[] = {Letter::F, Letter::B, Letter::W, Letter::BW}; // in the order of Action
        word.push_back({cell.stage, kLetters[size_t(cell.action)]});
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
        if (isPass(cell.action) || isTransfer(cell.action))
          kept.push_back({cell.action, cell.stage, cell.microbatch});
    }
  }

  const OrderCells &cells;
  Order &order;
  OrderError &error;
};

} // namespace

bool readOrder(std::string_view text, Order &order, OrderError &error) {
  order = {};
  OrderCells cells;
  OrderIndex index;
  return readCells(text, cells, error) && checkCells(cells, index, error) && Import(cells, order, error).run(index);
}

} // namespace pipec::schedule
