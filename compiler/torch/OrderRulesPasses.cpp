// Rules of an order file's stages and passes: each there once, after what it needs on its own rank.
#include "compiler/torch/OrderRule.h"

#include <algorithm>
#include <map>

namespace pipec::schedule {

namespace {

bool isOfStage(Action action) { return action >= Action::Unshard; }

class PassRules : OrderRule {
public:
  using OrderRule::OrderRule;

  bool run() {
    return stagesHavePlaces() && microbatchesInRange() && eachOnce() && nonePassMissing() && passesInOrder() &&
           lossesInOrder();
  }

private:
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

  /// Microbatches are 0 to m - 1. m is what most stages say by the largest microbatch of their forwards or backwards,
  /// so that one cell that is missing, doubled or wrong does not change m.
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

  /// Bounds stages times microbatches by the cells of the file, so that the index is no larger than the file.
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

  bool passesInOrder() {
    const int32_t ofCopy = std::max(1, index.stages / cells.copies);
    auto sameRank = [&](int32_t a, int32_t b) {
      return a >= 0 && b % ofCopy != 0 && index.rankOf[size_t(a)] == index.rankOf[size_t(b)];
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

  /// PyTorch appends losses to a list as the last stage runs, and looks them up by microbatch.
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
};

} // namespace

bool checkPasses(const OrderCells &cells, OrderIndex &index, OrderError &error) {
  return PassRules(cells, index, error).run();
}

} // namespace pipec::schedule
