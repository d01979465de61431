// Each rank goes along its row up to a cell whose input is not there; transfers on the way it leaves to their queues. A
// transfer is done once both ranks have passed its two ends and both ends are the heads of their queues. Then both
// ranks may go on, and the transfers behind it become the heads. Nothing chooses, so what is left when no rank can go
// on would be left in any order of events.
#include "compiler/torch/OrderFlow.h"

#include <map>

namespace pipec::emit {

using schedule::Action;
using schedule::Cell;
using schedule::OrderIndex;

namespace {

class Flow {
public:
  Flow(const schedule::OrderCells &cells, const OrderIndex &index, Communicator communicator)
      : cells(cells), index(index), next(cells.rows.size()), done(cells.rows.size()), queueOf(cells.rows.size()) {
    for (size_t rank = 0; rank != cells.rows.size(); ++rank)
      addQueues(rank, communicator);
  }

  bool run() {
    for (size_t rank = cells.rows.size(); rank-- != 0;)
      awake.push_back(rank);
    while (!awake.empty()) {
      const size_t rank = awake.back();
      awake.pop_back();
      advance(rank);
    }
    for (const Queue &queue : queues)
      if (queue.head != queue.places.size())
        return false;
    for (size_t rank = 0; rank != cells.rows.size(); ++rank)
      if (next[rank] != cells.rows[rank].size())
        return false;
    return true;
  }

private:
  static constexpr uint32_t kNowhere = OrderIndex::kNowhere;

  struct Queue {
    std::vector<uint32_t> places; // of its transfers in the row, in order
    size_t head = 0;
  };
  struct End {
    size_t rank;
    uint32_t place;
  };

  void addQueues(size_t rank, Communicator communicator) {
    std::map<std::pair<int32_t, int>, uint32_t> known; // by what shares one
    const std::vector<Cell> &row = cells.rows[rank];
    done[rank].resize(row.size());
    queueOf[rank].resize(row.size());
    uint32_t shared = kNowhere; // the one of all
    for (uint32_t place = 0; place != row.size(); ++place) {
      if (!isTransfer(row[place].action))
        continue;
      uint32_t queue = shared;
      if (queue == kNowhere) {
        const std::pair key(communicator == Communicator::Shared ? -1 : index.rankOf[size_t(otherStage(row[place]))],
                            isByDirection(communicator) ? int(isSend(row[place].action)) : 0);
        queue = known.try_emplace(key, uint32_t(queues.size())).first->second;
        if (queue == queues.size())
          queues.emplace_back();
        if (communicator == Communicator::Shared)
          shared = queue;
      }
      queueOf[rank][place] = queue;
      queues[queue].places.push_back(place);
    }
  }

  void advance(size_t rank) {
    const std::vector<Cell> &row = cells.rows[rank];
    for (uint32_t &at = next[rank]; at != row.size(); ++at)
      if (isTransfer(row[at].action))
        start({rank, at});
      else if (!canRun(rank, at))
        return;
  }

  bool canRun(size_t rank, uint32_t place) const {
    const Cell &cell = cells.rows[rank][place];
    if (isWaitSend(cell.action))
      return isDone(rank, cell, cell.action == Action::WaitSendF ? Action::SendF : Action::SendB);
    // An overlapped pair begins when the inputs of both passes are there.
    return hasInput(rank, cell) && (!cell.opensPair || hasInput(rank, cells.rows[rank][place + 1]));
  }
  bool hasInput(size_t rank, const Cell &cell) const {
    return cell.action == Action::F                               ? isDone(rank, cell, Action::RecvF)
           : cell.action == Action::B || cell.action == Action::I ? isDone(rank, cell, Action::RecvB)
                                                                  : true;
  }
  /// Or is not there.
  bool isDone(size_t rank, const Cell &cell, Action transfer) const {
    const uint32_t place = index.at(transfer, cell.stage, cell.microbatch);
    return place == kNowhere || done[rank][place];
  }

  End otherEnd(End end) const {
    const Cell &cell = cells.rows[end.rank][end.place];
    const int32_t stage = otherStage(cell);
    return {size_t(index.rankOf[size_t(stage)]), index.at(schedule::otherEnd(cell.action), stage, cell.microbatch)};
  }

  bool isReady(End end) const {
    const Queue &queue = queues[queueOf[end.rank][end.place]];
    return next[end.rank] >= end.place && queue.head != queue.places.size() && queue.places[queue.head] == end.place;
  }

  /// Does a transfer if it is ready, and then those that become heads by that.
  void start(End first) {
    heads.assign(1, first);
    while (!heads.empty()) {
      const End one = heads.back();
      heads.pop_back();
      if (!isReady(one))
        continue;
      const End other = otherEnd(one);
      if (!isReady(other))
        continue;
      for (const End end : {one, other}) {
        done[end.rank][end.place] = true;
        awake.push_back(end.rank);
        Queue &queue = queues[queueOf[end.rank][end.place]];
        if (++queue.head != queue.places.size())
          heads.push_back({end.rank, queue.places[queue.head]});
      }
    }
  }

  const schedule::OrderCells &cells;
  const OrderIndex &index;
  std::vector<uint32_t> next;                 // cell of each rank
  std::vector<std::vector<char>> done;        // transfers, by rank and cell
  std::vector<std::vector<uint32_t>> queueOf; // of transfers, by rank and cell
  std::vector<Queue> queues;
  std::vector<size_t> awake; // ranks
  std::vector<End> heads;
};

} // namespace

bool flows(const schedule::OrderCells &cells, const OrderIndex &index, Communicator communicator) {
  return Flow(cells, index, communicator).run();
}

} // namespace pipec::emit
