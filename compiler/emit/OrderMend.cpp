// What would mend an order that stops. Nothing is guessed: each way out is tried with the rules and the walk before it
// is named.
#include "compiler/emit/OrderPrograms.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::emit {

using schedule::Action;
using schedule::Cell;
using schedule::OrderCells;
using schedule::OrderIndex;

namespace {

constexpr size_t kCandidates = 24;              // moves tried
constexpr size_t kCellsTried = size_t(4) << 20; // and cells walked for them, in all

class Mend {
public:
  Mend(const OrderCells &given, const OrderIndex &index, Communicator communicator)
      : cells(given), index(index), communicator(communicator) {
    for (const auto &row : cells.rows)
      size += row.size();
  }

  std::string run(const std::vector<OrderBehind> &behind) {
    std::string mended;
    // Pairs are two cells that stay together: they are not moved.
    for (size_t i = 0; !cells.pairs && i != behind.size() && mended.empty(); ++i)
      mended = moved(behind[i]);
    if (mended.empty())
      mended = otherCommunicator();
    if (mended.empty() && cells.format == schedule::OrderFormat::ComputeComms)
      mended = passesAlone();
    return mended;
  }

private:
  std::string moved(const OrderBehind &at) {
    if (at.place == at.first)
      return laterWait(at.rank, at.place);
    const Cell &first = cells.rows[at.rank][at.first];
    std::string made = isWaitSend(first.action) ? laterWait(at.rank, at.first) : "";
    if (made.empty())
      made = tryMove(at.rank, at.place, at.first, "before");
    if (made.empty() && !isPass(first.action))
      made = tryMove(at.rank, at.first, at.place, "behind");
    return made;
  }

  /// A WAIT_SEND_F belongs behind the backward of its microbatch, which shows that what was sent has been taken; a
  /// WAIT_SEND_B at the end of the row.
  std::string laterWait(size_t rank, uint32_t place) {
    const Cell &wait = cells.rows[rank][place];
    if (wait.action == Action::WaitSendF)
      if (uint32_t backward = index.backward(wait.stage, wait.microbatch); backward > place)
        if (std::string made = tryMove(rank, place, backward, "behind"); !made.empty())
          return made;
    const uint32_t last = uint32_t(cells.rows[rank].size()) - 1;
    return place == last ? "" : tryMove(rank, place, last, "behind");
  }

  /// Whether it ends with the cell at `from` moved to where `to` stands.
  std::string tryMove(size_t rank, uint32_t from, uint32_t to, std::string_view where) {
    if (++tried > kCandidates || tried * size > kCellsTried)
      return "";
    std::vector<Cell> &row = cells.rows[rank];
    const std::string text = fmt::format("it ends with {} ({}:{}) moved {} {} ({}:{})", nameOf(row[from]), rank + 1,
                                         row[from].column, where, nameOf(row[to]), rank + 1, row[to].column);
    const std::vector<Cell> kept = row;
    if (from < to)
      std::rotate(row.begin() + from, row.begin() + from + 1, row.begin() + to + 1);
    else
      std::rotate(row.begin() + to, row.begin() + from, row.begin() + from + 1);
    const bool works = ends(cells, communicator);
    row = kept;
    return works ? text : "";
  }

  static bool ends(const OrderCells &order, Communicator communicator) {
    OrderIndex own;
    schedule::OrderError none;
    return schedule::checkCells(order, own, none) && orderEnds(order, own, communicator);
  }

  std::string otherCommunicator() const {
    if (cells.format == schedule::OrderFormat::ComputeOnly)
      return "";
    if (communicator == Communicator::Shared && ends(cells, Communicator::PerPair))
      return "it ends where each pair of ranks has a communicator of its own (--communicator=per_pair), as in an NCCL "
             "group that is not initialized eagerly";
    if (communicator != Communicator::PerEdge && ends(cells, Communicator::PerEdge))
      return "it ends where each direction of a pair of ranks has a communicator of its own (--communicator=per_edge), "
             "as with TORCH_DISTRIBUTED_PIPELINE_PER_EDGE_P2P=1 from release 2.15 on";
    return "";
  }

  std::string passesAlone() const {
    OrderCells passes;
    passes.pairs = cells.pairs;
    for (const auto &row : cells.rows)
      std::copy_if(row.begin(), row.end(), std::back_inserter(passes.rows.emplace_back()),
                   [](const Cell &cell) { return isPass(cell.action); });
    return ends(passes, communicator)
               ? "its passes end where the transfers are placed anew: leave out all other cells and load the file as "
                 "compute_only, or compile that with pipec as {name: order, file: ...}"
               : "its passes wait for each other in a cycle by themselves: no order of transfers mends that";
  }

  OrderCells cells;
  const OrderIndex &index;
  const Communicator communicator;
  size_t size = 0, tried = 0;
};

} // namespace

std::string mendOrder(const OrderCells &cells, const OrderIndex &index, Communicator communicator,
                      const std::vector<OrderBehind> &behind) {
  return Mend(cells, index, communicator).run(behind);
}

} // namespace pipec::emit
