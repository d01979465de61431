// Base of the rules of an order file: the cells, what is known about them so far, and the wording of errors. The rules
// are grouped by subject, in an order in which each may rely on those before.
#pragma once

#include "compiler/torch/OrderRules.h"

#include <fmt/format.h>

namespace pipec::schedule {

class OrderRule {
public:
  OrderRule(const OrderCells &cells, OrderIndex &index, OrderError &error) : cells(cells), index(index), error(error) {}

protected:
  static constexpr uint32_t kNowhere = OrderIndex::kNowhere;

  bool fail(size_t rank, int column, std::string message) {
    error = {int(rank) + 1, column, std::move(message), true};
    return false;
  }
  bool fail(size_t rank, const Cell &at, std::string message) { return fail(rank, at.column, std::move(message)); }

  const Cell &cellAt(int32_t stage, uint32_t place) const { return cells.rows[size_t(index.rankOf[stage])][place]; }
  std::string refer(int32_t stage, uint32_t place) const {
    const Cell &cell = cellAt(stage, place);
    return fmt::format("{} ({}:{})", nameOf(cell), index.rankOf[size_t(stage)] + 1, cell.column);
  }

  /// Calls `check` with every cell, its rank and its place, until a call returns false.
  template <typename Check> bool each(Check check) {
    for (size_t rank = 0; rank != cells.rows.size(); ++rank)
      for (uint32_t i = 0; i != cells.rows[rank].size(); ++i)
        if (!check(rank, cells.rows[rank][i], i))
          return false;
    return true;
  }

  /// An error if the cell at place `later` comes before the cell at place `needs` of the same rank.
  bool after(int32_t stage, uint32_t later, int32_t of, uint32_t needs, std::string_view what) {
    return later > needs ||
           fail(size_t(index.rankOf[size_t(stage)]), cellAt(stage, later),
                fmt::format("{} comes before {} {}", nameOf(cellAt(stage, later)), what, refer(of, needs)));
  }

  const OrderCells &cells;
  OrderIndex &index;
  OrderError &error;
};

/// Checks stages, microbatches and passes. Fills the index.
bool checkPasses(const OrderCells &cells, OrderIndex &index, OrderError &error);
/// Checks SEND and RECV, in files that have them.
bool checkTransfers(const OrderCells &cells, OrderIndex &index, OrderError &error);
/// Checks what a release's runtime needs besides: waits, reductions, shards.
bool checkRelease(const OrderCells &cells, OrderIndex &index, OrderError &error);

} // namespace pipec::schedule
