#include "compiler/schedule/OrderRules.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

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

namespace {

constexpr uint32_t kNowhere = OrderIndex::kNowhere;

bool isOfStage(Action action) { return action >= Action::Unshard; }

class Rules {
public:
  Rules(const OrderCells &cells, OrderIndex &index, OrderError &error) : cells(cells), index(index), error(error) {}

  /// In an order in which each may rely on those before it.
  bool run() {
    return stagesHavePlaces() && microbatchesInRange() && eachOnce() && nonePassMissing() && passesInOrder() &&
           lossesInOrder() && (cells.format == OrderFormat::ComputeOnly || comms());
  }

private:
  bool comms() {
    return transfersBetweenRanks() && noneTransferMissing() && transfersInOrder() && pairsMatch() &&
           sendsAreWaitedFor() && gradientsReduced() && reductionsWaitedFor() && shardsInOrder();
  }

  //===--------------------------------------------------------------------===//
  // Saying it
  //===--------------------------------------------------------------------===//

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

  /// Every cell with its rank and place, until one is wrong.
  template <typename Check> bool each(Check check) {
    for (size_t rank = 0; rank != cells.rows.size(); ++rank)
      for (uint32_t i = 0; i != cells.rows[rank].size(); ++i)
        if (!check(rank, cells.rows[rank][i], i))
          return false;
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Stages and passes
  //===--------------------------------------------------------------------===//

  /// Each stage on one rank, none left out. Only passes say where a stage is.
  bool stagesHavePlaces() {
    struct First {
      size_t rank;
      Cell cell;
    };
    std::map<int32_t, First> rankOf;
    bool right = each([&](size_t rank, const Cell &cell, uint32_t) {
      if (!isPass(cell.action))
        return true;
      auto [known, isNew] = rankOf.try_emplace(cell.stage, First{rank, cell});
      return isNew || known->second.rank == rank ||
             fail(rank, cell,
                  fmt::format("stage {} is on rank {} already (line {})", cell.stage, known->second.rank,
                              known->second.rank + 1));
    });
    if (!right)
      return false;
    for (const auto &[stage, place] : rankOf) {
      if (stage != index.stages)
        return fail(place.rank, place.cell,
                    fmt::format("stage {} stands in no row, but stage {} does", index.stages, stage));
      ++index.stages;
      index.rankOf.push_back(int32_t(place.rank));
    }
    std::vector<bool> has(cells.rows.size());
    for (int32_t rank : index.rankOf)
      has[size_t(rank)] = true;
    if (auto none = std::find(has.begin(), has.end(), false); none != has.end())
      return fail(size_t(none - has.begin()), 1,
                  fmt::format("rank {} has no stage: none of its cells is a pass", none - has.begin()));
    return each([&](size_t rank, const Cell &cell, uint32_t) {
      if (cell.stage < index.stages && index.rankOf[size_t(cell.stage)] == int32_t(rank))
        return true;
      return fail(rank, cell,
                  cell.stage < index.stages
                      ? fmt::format("{} stands on rank {}, but stage {} is on rank {} (line {})", nameOf(cell), rank,
                                    cell.stage, index.rankOf[size_t(cell.stage)], index.rankOf[size_t(cell.stage)] + 1)
                      : fmt::format("{}: no rank has stage {}", nameOf(cell), cell.stage));
    });
  }

  /// Microbatches are 0 to m - 1. What m is, most stages say by their largest of a forward or backward: one cell that
  /// is missing, doubled or wrong does not change it.
  bool microbatchesInRange() {
    std::vector<std::array<int32_t, 2>> most(size_t(index.stages), {0, 0});
    each([&](size_t, const Cell &cell, uint32_t) {
      if (isPass(cell.action) && cell.action != Action::W) {
        int32_t &largest = most[size_t(cell.stage)][cell.action == Action::F ? 0 : 1];
        largest = std::max(largest, cell.microbatch + 1);
      }
      return true;
    });
    std::map<int32_t, int64_t> votes;
    for (const auto &counts : most)
      for (int32_t count : counts)
        if (count != 0)
          ++votes[count];
    int64_t best = 0;
    for (auto [count, voters] : votes)
      if (voters > best)
        best = voters, index.microbatches = count;
    if (votes.empty())
      return fail(0, 1, "the order has no forward and no backward");
    return each([&](size_t rank, const Cell &cell, uint32_t) {
             return cell.microbatch < index.microbatches ||
                    fail(rank, cell,
                         fmt::format("{}: expected microbatches 0 to {}, as most stages have", nameOf(cell),
                                     index.microbatches - 1));
           }) &&
           enoughForwards();
  }

  /// So that what is kept for each stage and microbatch is no more than the file is long.
  bool enoughForwards() {
    std::vector<int64_t> forwards(size_t(index.stages), 0);
    each([&](size_t, const Cell &cell, uint32_t) {
      forwards[size_t(cell.stage)] += cell.action == Action::F;
      return true;
    });
    for (int32_t stage = 0; stage != index.stages; ++stage)
      if (forwards[size_t(stage)] < index.microbatches)
        return forwardMissing(stage, forwards[size_t(stage)]);
    return true;
  }

  /// Names the first; what stands in the row is all there is to look at.
  bool forwardMissing(int32_t stage, int64_t count) {
    std::vector<bool> has(size_t(index.microbatches));
    const size_t rank = size_t(index.rankOf[size_t(stage)]);
    const Cell *any = nullptr;
    for (const Cell &cell : cells.rows[rank]) {
      if (cell.stage != stage)
        continue;
      any = any ? any : &cell;
      if (cell.action == Action::F)
        has[size_t(cell.microbatch)] = true;
    }
    size_t gap = size_t(std::find(has.begin(), has.end(), false) - has.begin());
    return fail(rank, *any,
                fmt::format("stage {} has {} forward{}, expected one for each of {} microbatches: there is no {}F{}",
                            stage, count, count == 1 ? "" : "s", index.microbatches, stage, gap));
  }

  bool eachOnce() {
    return each([&](size_t rank, const Cell &cell, uint32_t i) {
      if (isOfStage(cell.action))
        return true;
      uint32_t &place = index.place(cell);
      if (place != kNowhere)
        return fail(
            rank, cell,
            fmt::format("{} stands twice, first at {}:{}", nameOf(cell), rank + 1, cells.rows[rank][place].column));
      place = i;
      return true;
    });
  }

  /// B, or both I and W, of each stage and microbatch; of forwards there are enough, each once.
  bool nonePassMissing() {
    for (int32_t stage = 0; stage != index.stages; ++stage)
      for (int32_t j = 0; j != index.microbatches; ++j) {
        const uint32_t forward = index.at(Action::F, stage, j), whole = index.at(Action::B, stage, j),
                       input = index.at(Action::I, stage, j), weight = index.at(Action::W, stage, j);
        const size_t rank = size_t(index.rankOf[size_t(stage)]);
        if (whole != kNowhere && (input != kNowhere || weight != kNowhere)) {
          uint32_t other = input != kNowhere ? input : weight;
          return fail(rank, cells.rows[rank][other],
                      fmt::format("{} beside the whole backward {}, expected one of the two",
                                  nameOf(cells.rows[rank][other]), refer(stage, whole)));
        }
        if (whole == kNowhere && input == kNowhere)
          return fail(rank, cells.rows[rank][forward],
                      fmt::format("{} has no backward, expected {}B{} or {}I{} and {}W{}",
                                  nameOf(cells.rows[rank][forward]), stage, j, stage, j, stage, j));
        if (whole == kNowhere && weight == kNowhere)
          return fail(
              rank, cells.rows[rank][input],
              fmt::format("{} has no {}W{}: a split backward is both", nameOf(cells.rows[rank][input]), stage, j));
      }
    return true;
  }

  /// What is `later` must not stand before what it `needs`, of the same rank.
  bool after(int32_t stage, uint32_t later, int32_t of, uint32_t needs, std::string_view what) {
    return later > needs ||
           fail(size_t(index.rankOf[size_t(stage)]), cellAt(stage, later),
                fmt::format("{} comes before {} {}", nameOf(cellAt(stage, later)), what, refer(of, needs)));
  }

  bool passesInOrder() {
    auto sameRank = [&](int32_t a, int32_t b) {
      return a >= 0 && b < index.stages && index.rankOf[size_t(a)] == index.rankOf[size_t(b)];
    };
    return each([&](size_t, const Cell &cell, uint32_t i) {
      const int32_t s = cell.stage, j = cell.microbatch;
      switch (cell.action) {
      case Action::F:
        return !sameRank(s - 1, s) || after(s, i, s - 1, index.at(Action::F, s - 1, j), "what it takes,");
      case Action::I:
      case Action::B:
        return after(s, i, s, index.at(Action::F, s, j), "its forward") &&
               (!sameRank(s, s + 1) || after(s, i, s + 1, index.backward(s + 1, j), "what it takes,"));
      case Action::W: // nonePassMissing: it has an I
        return after(s, i, s, index.at(Action::I, s, j), "its backward");
      default:
        return true;
      }
    });
  }

  /// Losses are a list appended to as the last stage runs, and found by microbatch.
  bool lossesInOrder() {
    const int32_t last = index.stages - 1;
    for (int32_t j = 1; j < index.microbatches; ++j)
      if (uint32_t own = index.at(Action::F, last, j), before = index.at(Action::F, last, j - 1); own < before)
        return fail(size_t(index.rankOf[size_t(last)]), cellAt(last, own),
                    fmt::format("{} comes before {}: PyTorch numbers losses as the last stage runs, so its forwards "
                                "stand in the order of microbatches",
                                nameOf(cellAt(last, own)), refer(last, before)));
    return true;
  }

  //===--------------------------------------------------------------------===//
  // Transfers
  //===--------------------------------------------------------------------===//

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
    std::map<std::pair<int32_t, int32_t>, std::pair<std::vector<End>, std::vector<End>>> pairs;
    each([&](size_t rank, const Cell &cell, uint32_t i) {
      if (isTransfer(cell.action)) {
        const int32_t other = index.rankOf[size_t(otherStage(cell))];
        if (isSend(cell.action))
          pairs[{int32_t(rank), other}].first.push_back({uint32_t(rank), i});
        else
          pairs[{other, int32_t(rank)}].second.push_back({uint32_t(rank), i});
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

  //===--------------------------------------------------------------------===//
  // What the releases add
  //===--------------------------------------------------------------------===//

  /// 2.15: one WAIT_SEND for each SEND, after it.
  bool sendsAreWaitedFor() {
    if (cells.release != TorchRelease::V2_15)
      return true;
    return each([&](size_t rank, const Cell &cell, uint32_t i) {
      const bool forward = cell.action == Action::SendF || cell.action == Action::WaitSendF;
      if (isSend(cell.action)) {
        const Action wait = forward ? Action::WaitSendF : Action::WaitSendB;
        return index.at(wait, cell.stage, cell.microbatch) != kNowhere ||
               fail(rank, cell,
                    fmt::format("{} has no {}{}{}, which release 2.15 expects of each SEND", nameOf(cell), cell.stage,
                                spelling(wait), cell.microbatch));
      }
      if (!isWaitSend(cell.action))
        return true;
      const uint32_t send = index.at(forward ? Action::SendF : Action::SendB, cell.stage, cell.microbatch);
      if (send == kNowhere)
        return fail(rank, cell, fmt::format("{} waits for a SEND that is not in the file", nameOf(cell)));
      return after(cell.stage, i, cell.stage, send, "what it waits for,");
    });
  }

  /// From 2.10 on: one REDUCE_GRAD a stage, after its last backward; it also scales the gradients.
  bool gradientsReduced() {
    if (cells.release == TorchRelease::V2_8)
      return true;
    std::vector<const Cell *> reduced(size_t(index.stages), nullptr);
    for (size_t rank = 0; rank != cells.rows.size(); ++rank)
      for (const Cell &cell : cells.rows[rank]) {
        const Cell *&known = reduced[size_t(cell.stage)];
        if (cell.action == Action::ReduceGrad && known)
          return fail(rank, cell,
                      fmt::format("{} stands twice, first at {}:{}", nameOf(cell), rank + 1, known->column));
        if (cell.action == Action::ReduceGrad)
          known = &cell;
        if ((cell.action == Action::B || cell.action == Action::W) && known)
          return fail(rank, *known,
                      fmt::format("{} comes before the backward {} ({}:{}), expected it after the last", nameOf(*known),
                                  nameOf(cell), rank + 1, cell.column));
      }
    for (int32_t stage = 0; stage != index.stages; ++stage)
      if (!reduced[size_t(stage)])
        return fail(size_t(index.rankOf[size_t(stage)]), cellAt(stage, index.at(Action::F, stage, 0)),
                    fmt::format("stage {} has no {}REDUCE_GRAD: its gradients would be {} times too large", stage,
                                stage, index.microbatches));
    return true;
  }

  /// 2.15: one WAIT_REDUCE_GRAD for each REDUCE_GRAD, and no two reductions of a rank at once.
  bool reductionsWaitedFor() {
    for (size_t rank = 0; rank != cells.rows.size(); ++rank) {
      const Cell *open = nullptr;
      for (const Cell &cell : cells.rows[rank]) {
        if (cell.action == Action::WaitReduceGrad) {
          if (!open || open->stage != cell.stage)
            return fail(rank, cell, fmt::format("{} waits for no reduction that is under way", nameOf(cell)));
          open = nullptr;
        } else if (cell.action == Action::ReduceGrad && cells.release == TorchRelease::V2_15) {
          if (open)
            return fail(rank, cell,
                        fmt::format("{} begins while {} ({}:{}) is under way, expected {}WAIT_REDUCE_GRAD between "
                                    "them",
                                    nameOf(cell), nameOf(*open), rank + 1, open->column, open->stage));
          open = &cell;
        }
      }
      if (open)
        return fail(rank, *open, fmt::format("{} has no {}WAIT_REDUCE_GRAD", nameOf(*open), open->stage));
    }
    return true;
  }

  /// UNSHARD and RESHARD, where the file has them: in turn, every pass in between, and a pass between any two.
  bool shardsInOrder() {
    bool any = false;
    each([&](size_t, const Cell &cell, uint32_t) {
      any |= cell.action == Action::Unshard || cell.action == Action::Reshard;
      return true;
    });
    if (!any)
      return true;
    struct Stage {
      bool whole = false;
      const Cell *unused = nullptr; // the UNSHARD after which nothing has run
    };
    std::vector<Stage> stages(size_t(index.stages));
    bool right = each([&](size_t rank, const Cell &cell, uint32_t) {
      Stage &stage = stages[size_t(cell.stage)];
      if (cell.action == Action::Unshard) {
        if (stage.whole)
          return fail(rank, cell, fmt::format("{}, but stage {} is unsharded already", nameOf(cell), cell.stage));
        stage = {true, &cell};
      } else if (cell.action == Action::Reshard) {
        if (!stage.whole)
          return fail(rank, cell, fmt::format("{}, but stage {} is not unsharded", nameOf(cell), cell.stage));
        if (stage.unused)
          return fail(rank, cell,
                      fmt::format("{} comes before any pass of stage {} has run since {} ({}:{})", nameOf(cell),
                                  cell.stage, nameOf(*stage.unused), rank + 1, stage.unused->column));
        stage.whole = false;
      } else if (isPass(cell.action)) {
        if (!stage.whole)
          return fail(rank, cell,
                      fmt::format("{} runs while stage {} is sharded, expected {}UNSHARD before it", nameOf(cell),
                                  cell.stage, cell.stage));
        stage.unused = nullptr;
      }
      return true;
    });
    for (int32_t s = 0; right && s != index.stages; ++s)
      if (const Cell *unused = stages[size_t(s)].unused)
        return fail(size_t(index.rankOf[size_t(s)]), *unused,
                    fmt::format("no pass of stage {} comes after {}", s, nameOf(*unused)));
    return right;
  }

  const OrderCells &cells;
  OrderIndex &index;
  OrderError &error;
};

} // namespace

bool checkCells(const OrderCells &cells, OrderIndex &index, OrderError &error) {
  index = {};
  return Rules(cells, index, error).run();
}

} // namespace pipec::schedule
