#include "compiler/transfers/RowRun.h"

#include <algorithm>
#include <array>

namespace pipec {

using plan::Time;

namespace {

class RowRun {
public:
  RowRun(const Traffic &traffic, const Rows &rows)
      : traffic(traffic), rows(rows), next(rows.size()), free(rows.size()), moves(traffic.moves.size()),
        queues(traffic.queues), rankOf(traffic.passes.size()) {
    for (uint32_t rank = 0; rank != rows.size(); ++rank)
      for (const Cell &cell : rows[rank])
        if (cell.kind == Cell::Kind::Pass)
          rankOf[cell.index] = rank;
        else
          queues[queueOf(cell)].order.push_back(cell.index);
  }

  std::optional<Time> run() {
    for (uint32_t rank = uint32_t(rows.size()); rank-- != 0;)
      awake.push_back(rank);
    while (!awake.empty()) {
      const uint32_t rank = awake.back();
      awake.pop_back();
      run(rank);
    }
    for (size_t rank = 0; rank != rows.size(); ++rank)
      if (next[rank] != rows[rank].size())
        return std::nullopt;
    return free.empty() ? 0 : *std::max_element(free.begin(), free.end());
  }

private:
  static constexpr Time kUnknown = -1;
  struct Move {
    std::array<Time, 2> ready = {kUnknown, kUnknown}; // at the sender, at the receiver
    Time arrival = kUnknown;
  };
  struct Queue {
    std::vector<uint32_t> order; // transfers
    size_t next = 0;
    Time free = 0;
  };

  uint32_t queueOf(const Cell &cell) const {
    const Traffic::Move &move = traffic.moves[cell.index];
    return cell.kind == Cell::Kind::Send ? move.sends : move.receives;
  }

  /// Runs a row as far as it goes; a transfer that it waits for wakes it.
  void run(uint32_t rank) {
    for (size_t &at = next[rank]; at != rows[rank].size(); ++at) {
      const Cell &cell = rows[rank][at];
      if (cell.kind != Cell::Kind::Pass) {
        const bool receives = cell.kind == Cell::Kind::Recv;
        moves[cell.index].ready[receives] = free[rank];
        if (moves[cell.index].ready[!receives] != kUnknown)
          start(cell.index);
        continue;
      }
      const Traffic::Pass &pass = traffic.passes[cell.index];
      const Time arrival = pass.in == Traffic::kNone ? 0 : moves[pass.in].arrival;
      if (arrival == kUnknown)
        return;
      free[rank] = std::max(free[rank], arrival) + pass.cost;
    }
  }

  bool isHead(uint32_t queue, uint32_t move) const {
    return queues[queue].next != queues[queue].order.size() && queues[queue].order[queues[queue].next] == move;
  }

  /// Does a transfer if both its ends are at the heads of their queues, and then those that become heads by that.
  void start(uint32_t first) {
    heads.assign(1, first);
    while (!heads.empty()) {
      const uint32_t index = heads.back();
      heads.pop_back();
      Move &own = moves[index];
      const Traffic::Move &move = traffic.moves[index];
      if (own.ready[0] == kUnknown || own.ready[1] == kUnknown || !isHead(move.sends, index) ||
          !isHead(move.receives, index))
        continue;
      Queue &sends = queues[move.sends], &receives = queues[move.receives];
      const Time end = std::max({own.ready[0], own.ready[1], sends.free, receives.free}) + move.cost;
      sends.free = receives.free = end;
      own.arrival = end + move.latency;
      awake.push_back(rankOf[move.consumer]);
      for (Queue *queue : {&sends, &receives})
        if (++queue->next != queue->order.size())
          heads.push_back(queue->order[queue->next]);
    }
  }

  const Traffic &traffic;
  const Rows &rows;
  std::vector<size_t> next; // cell of each rank
  std::vector<Time> free;   // each rank's passes so far have ended
  std::vector<Move> moves;
  std::vector<Queue> queues;
  std::vector<uint32_t> rankOf; // of passes
  std::vector<uint32_t> awake;  // ranks
  std::vector<uint32_t> heads;
};

} // namespace

std::optional<Time> makespanOf(const Traffic &traffic, const Rows &rows) { return RowRun(traffic, rows).run(); }

} // namespace pipec
