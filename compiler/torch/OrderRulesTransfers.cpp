// Rules of an order file's transfers: each there, after what it sends and before what takes it, and paired by its place
// alone.
#include "compiler/torch/OrderRule.h"

#include <map>

namespace pipec::schedule {

namespace {

class TransferRules : OrderRule {
public:
  using OrderRule::OrderRule;

  bool run() { return transfersBetweenRanks() && noneTransferMissing() && transfersInOrder() && pairsMatch(); }

private:
  bool transfersBetweenRanks() {
    return each([&](size_t rank, const Cell &cell, uint32_t) {
      if (!isTransfer(cell.action))
        return true;
      const int32_t other = otherStage(cell);
      if (other < 0 || other >= index.stages)
        return fail(rank, cell,
                    fmt::format("{}: stage {} is the {}, there is nothing to {}", nameOf(cell), cell.stage,
                                other < 0 ? "first" : "last", isSend(cell.action) ? "send to" : "receive from"));
      return index.rankOf[size_t(other)] != int32_t(rank) ||
             fail(rank, cell,
                  fmt::format("{}: stages {} and {} are on one rank, which hands over without a transfer", nameOf(cell),
                              cell.stage, other));
    });
  }

  /// One SEND and one RECV for each microbatch and direction between neighbouring stages on different ranks.
  bool noneTransferMissing() {
    for (int32_t s = 0; s + 1 < index.stages; ++s) {
      if (index.rankOf[size_t(s)] == index.rankOf[size_t(s) + 1])
        continue;
      for (int32_t j = 0; j != index.microbatches; ++j) {
        const uint32_t backward = index.backward(s + 1, j);
        if (!sent(Action::SendF, s, j, index.at(Action::F, s, j), s + 1) ||
            !received(Action::RecvF, s + 1, j, index.at(Action::F, s + 1, j), s) ||
            !sent(Action::SendB, s + 1, j, backward, s) || !received(Action::RecvB, s, j, index.backward(s, j), s + 1))
          return false;
      }
    }
    return true;
  }

  bool sent(Action action, int32_t stage, int32_t j, uint32_t producer, int32_t to) {
    return index.at(action, stage, j) != kNowhere ||
           fail(size_t(index.rankOf[size_t(stage)]), cellAt(stage, producer),
                fmt::format("what {} yields is never sent, expected {}{}{} after it: stage {} is on rank {}",
                            nameOf(cellAt(stage, producer)), stage, spelling(action), j, to, index.rankOf[size_t(to)]));
  }
  bool received(Action action, int32_t stage, int32_t j, uint32_t consumer, int32_t from) {
    return index.at(action, stage, j) != kNowhere ||
           fail(size_t(index.rankOf[size_t(stage)]), cellAt(stage, consumer),
                fmt::format("what {} takes is never received, expected {}{}{} before it: stage {} is on rank {}",
                            nameOf(cellAt(stage, consumer)), stage, spelling(action), j, from,
                            index.rankOf[size_t(from)]));
  }

  bool transfersInOrder() {
    return each([&](size_t, const Cell &cell, uint32_t i) {
      const int32_t s = cell.stage, j = cell.microbatch;
      switch (cell.action) {
      case Action::SendF:
        return after(s, i, s, index.at(Action::F, s, j), "what it sends,");
      case Action::SendB:
        return after(s, i, s, index.backward(s, j), "what it sends,");
      case Action::F:
        return index.at(Action::RecvF, s, j) == kNowhere ||
               after(s, i, s, index.at(Action::RecvF, s, j), "what it takes,");
      case Action::B:
      case Action::I:
        return index.at(Action::RecvB, s, j) == kNowhere ||
               after(s, i, s, index.at(Action::RecvB, s, j), "what it takes,");
      default:
        return true;
      }
    });
  }

  /// On each ordered pair of ranks the k-th SEND is what the k-th RECV expects: there are no tags, so anything else is
  /// silently wrong gradients.
  bool pairsMatch() {
    struct End {
      uint32_t rank, place;
    };
    using Ends = std::pair<std::vector<End>, std::vector<End>>;
    std::map<std::pair<int32_t, int32_t>, Ends> pairs;
    std::vector<Ends *> known(size_t(index.stages) * size_t(kActions)); // by stage, which is on one rank, and action
    each([&](size_t rank, const Cell &cell, uint32_t i) {
      if (isTransfer(cell.action)) {
        const bool sends = isSend(cell.action);
        Ends *&ends = known[size_t(cell.stage) * size_t(kActions) + size_t(cell.action)];
        if (!ends) {
          const int32_t own = int32_t(rank), other = index.rankOf[size_t(otherStage(cell))];
          ends = &pairs[sends ? std::pair(own, other) : std::pair(other, own)];
        }
        (sends ? ends->first : ends->second).push_back({uint32_t(rank), i});
      }
      return true;
    });
    for (const auto &[ranks, ends] : pairs)
      for (size_t k = 0; k != ends.first.size(); ++k) { // noneTransferMissing: as many of either
        const Cell &send = cells.rows[ends.first[k].rank][ends.first[k].place];
        const Cell &recv = cells.rows[ends.second[k].rank][ends.second[k].place];
        if (recv.stage == otherStage(send) && recv.microbatch == send.microbatch &&
            (recv.action == Action::RecvF) == (send.action == Action::SendF))
          continue;
        const Cell &right =
            cellAt(otherStage(send), index.at(send.action == Action::SendF ? Action::RecvF : Action::RecvB,
                                              otherStage(send), send.microbatch));
        return fail(
            size_t(ranks.second), recv,
            fmt::format("{} is the {} receive of rank {} from rank {}, whose {} send is {} ({}:{}): nothing but "
                        "order tells transfers apart, so it would get the wrong tensor; put {} ({}:{}) here or "
                        "send in this order",
                        nameOf(recv), ordinal(k), ranks.second, ranks.first, ordinal(k), nameOf(send), ranks.first + 1,
                        send.column, nameOf(right), ranks.second + 1, right.column));
      }
    return true;
  }

  static std::string ordinal(size_t k) {
    const size_t n = k + 1;
    const char *ending = n / 10 % 10 == 1 ? "th" : n % 10 == 1 ? "st" : n % 10 == 2 ? "nd" : n % 10 == 3 ? "rd" : "th";
    return fmt::format("{}{}", n, ending);
  }
};

} // namespace

bool checkTransfers(const OrderCells &cells, OrderIndex &index, OrderError &error) {
  return TransferRules(cells, index, error).run();
}

} // namespace pipec::schedule
