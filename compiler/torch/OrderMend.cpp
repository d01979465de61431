// What would mend an order that stops. Nothing is guessed: each remedy is tried with the rules and the walk before it
// is named.
#include "compiler/torch/OrderPrograms.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::emit {

using schedule::Action;
using schedule::Cell;
using schedule::OrderCells;
using schedule::OrderIndex;

namespace {

constexpr size_t kMoves = 8;                    // named
constexpr size_t kCellsTried = size_t(4) << 20; // walked to find them, in all

class Mend {
public:
  Mend(const OrderCells &given, Communicator communicator) : given(given), communicator(communicator), cells(given) {
    for (const auto &row : given.rows)
      size += row.size();
  }

  std::string run() {
    std::string mended = moves();
    if (mended.empty())
      mended = otherCommunicator();
    if (mended.empty() && given.format == schedule::OrderFormat::ComputeComms)
      mended = passesAlone();
    return mended;
  }

private:
  /// Cells moved one after the other, each so that it runs further. Pairs are two cells that stay together: nothing is
  /// moved among them.
  std::string moves() {
    std::string text;
    if (given.pairs || !judge(state))
      return "";
    for (size_t n = 0; n != kMoves; ++n) {
      std::string made;
      const std::vector<OrderBehind> behind = state.behind;
      for (size_t i = 0; i != behind.size() && made.empty(); ++i)
        made = moved(behind[i]);
      if (made.empty())
        return "";
      text += (text.empty() ? "it ends with " : ", then ") + made;
      if (state.ends)
        return text;
    }
    return "";
  }

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

  /// Moves the cell at `from` to where `to` stands, if it runs further then.
  std::string tryMove(size_t rank, uint32_t from, uint32_t to, std::string_view where) {
    std::vector<Cell> &row = cells.rows[rank];
    const Cell moved = row[from], other = row[to];
    auto rotate = [&](uint32_t from, uint32_t to) {
      if (from < to)
        std::rotate(row.begin() + from, row.begin() + from + 1, row.begin() + to + 1);
      else
        std::rotate(row.begin() + to, row.begin() + from, row.begin() + from + 1);
    };
    rotate(from, to);
    OrderRun run;
    if (judge(run) && (run.ends || run.done > state.done)) {
      state = std::move(run);
      return fmt::format("{} ({}:{}) moved {} {} ({}:{})", nameOf(moved), rank + 1, moved.column, where, nameOf(other),
                         rank + 1, other.column);
    }
    rotate(to, from);
    return "";
  }

  /// How far the cells run as they stand; false if they break a rule, or enough has been tried.
  bool judge(OrderRun &run) {
    walked += size;
    schedule::OrderError none;
    if (walked > kCellsTried || !schedule::checkCells(cells, index, none))
      return false;
    run = runOrder(cells, index, communicator);
    return true;
  }

  static bool ends(const OrderCells &order, Communicator communicator) {
    OrderIndex own;
    schedule::OrderError none;
    return schedule::checkCells(order, own, none) && runOrder(order, own, communicator).ends;
  }

  std::string otherCommunicator() const {
    if (given.format == schedule::OrderFormat::ComputeOnly)
      return "";
    if (communicator == Communicator::Shared && ends(given, Communicator::PerPair))
      return "it ends where each pair of ranks has a communicator of its own (--communicator=per_pair), as in an NCCL "
             "group that is not initialized eagerly";
    if (communicator != Communicator::LaunchOrder && ends(given, Communicator::LaunchOrder))
      return "it ends where each direction of a pair of ranks has a communicator of its own "
             "(--communicator=launch_order), "
             "as with TORCH_DISTRIBUTED_PIPELINE_PER_EDGE_P2P=1 from release 2.15 on; with NCCL, under "
             "NCCL_LAUNCH_ORDER_IMPLICIT=1";
    if (communicator != Communicator::PerEdge && ends(given, Communicator::PerEdge))
      return "it ends where each direction of a pair of ranks has a communicator of its own (--communicator=per_edge), "
             "as with TORCH_DISTRIBUTED_PIPELINE_PER_EDGE_P2P=1 from release 2.15 on";
    return "";
  }

  std::string passesAlone() const {
    OrderCells passes;
    passes.pairs = given.pairs;
    for (const auto &row : given.rows)
      std::copy_if(row.begin(), row.end(), std::back_inserter(passes.rows.emplace_back()),
                   [](const Cell &cell) { return isPass(cell.action); });
    return ends(passes, communicator)
               ? "its passes end where the transfers are placed anew: leave out all other cells and load the file as "
                 "compute_only, or compile that with pipec as {name: order, file: ...}"
               : "its passes wait for each other in a cycle by themselves: no order of transfers mends that";
  }

  const OrderCells &given;
  const Communicator communicator;
  OrderCells cells; // with what has been moved
  OrderIndex index; // of them
  OrderRun state;
  size_t size = 0, walked = 0;
};

} // namespace

std::string mendOrder(const OrderCells &cells, Communicator communicator) { return Mend(cells, communicator).run(); }

} // namespace pipec::emit
