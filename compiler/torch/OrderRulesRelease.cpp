// Rules of what PyTorch's releases add to an order file: waits for sends, reductions of gradients, shards.
#include "compiler/torch/OrderRule.h"

namespace pipec::schedule {

namespace {

class ReleaseRules : OrderRule {
public:
  using OrderRule::OrderRule;

  bool run() { return sendsAreWaitedFor() && gradientsReduced() && reductionsWaitedFor() && shardsInOrder(); }

private:
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
};

} // namespace

bool checkRelease(const OrderCells &cells, OrderIndex &index, OrderError &error) {
  return ReleaseRules(cells, index, error).run();
}

} // namespace pipec::schedule
