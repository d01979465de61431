#include "compiler/torch/OrderProof.h"

#include "compiler/torch/OrderFlow.h"
#include "compiler/torch/OrderPrograms.h"
#include "runtime/simulate/Simulate.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace pipec::emit {

using schedule::Action;
using schedule::Cell;
using schedule::OrderCells;
using schedule::OrderIndex;

namespace {

/// The rows of a compute_only file with the transfers that PyTorch adds, placed so that none waits for more than its
/// tensor: receives before all else, in the order in which the rank's peers send; a send right after the pass that
/// makes its tensor.
OrderCells withTransfers(const OrderCells &cells, const OrderIndex &index) {
  OrderCells made;
  made.format = schedule::OrderFormat::ComputeComms;
  made.rows.resize(cells.rows.size());
  std::vector<std::vector<Cell>> sends(cells.rows.size());
  auto eachSent = [&](size_t rank, auto visit) {
    for (uint32_t i = 0; i != cells.rows[rank].size(); ++i) {
      const Cell &cell = cells.rows[rank][i];
      Cell send{.action = cell.action == Action::F ? Action::SendF : Action::SendB,
                .stage = cell.stage,
                .microbatch = cell.microbatch,
                .column = cell.column};
      const int32_t other = otherStage(send);
      if (cell.action != Action::W && other >= 0 && other < index.stages &&
          index.rankOf[size_t(other)] != int32_t(rank))
        visit(i, send);
    }
  };
  for (size_t rank = 0; rank != cells.rows.size(); ++rank)
    eachSent(rank, [&](uint32_t, Cell send) {
      const int32_t other = otherStage(send);
      send.action = send.action == Action::SendF ? Action::RecvF : Action::RecvB;
      send.stage = other;
      made.rows[size_t(index.rankOf[size_t(other)])].push_back(send);
    });
  for (size_t rank = 0; rank != cells.rows.size(); ++rank) {
    std::vector<Cell> &row = made.rows[rank];
    uint32_t next = 0;
    auto copyTo = [&](uint32_t end) {
      for (; next != end; ++next)
        row.push_back(cells.rows[rank][next]);
    };
    eachSent(rank, [&](uint32_t i, const Cell &send) {
      copyTo(i + 1);
      if (cells.rows[rank][i].opensPair) // what is sent by the first follows the second
        copyTo(i + 2);
      row.push_back(send);
    });
    copyTo(uint32_t(cells.rows[rank].size()));
  }
  return made;
}

/// A cell by its rank and its place in the row.
struct Node {
  size_t rank = 0;
  uint32_t place = 0;
  bool operator==(const Node &) const = default;
};

/// What a cell that cannot run waits for, and a format for a message that names both cells.
struct Step {
  Node next;
  std::string_view why;
};

class Proof {
public:
  Proof(const OrderCells &given, const OrderIndex &givenIndex, Communicator communicator)
      : passesAlone(given.format == schedule::OrderFormat::ComputeOnly),
        added(passesAlone ? withTransfers(given, givenIndex) : OrderCells()), cells(passesAlone ? added : given),
        givenIndex(givenIndex), index(passesAlone ? ownIndex : givenIndex) {
    schedule::OrderError none;
    if (passesAlone)
      (void)schedule::checkCells(added, ownIndex, none); // it holds: the transfers are ours
    programs.emplace(cells, index, passesAlone ? Communicator::PerEdge : communicator);
  }

  bool ends() const {
    simulate::Result result;
    return simulate::simulate(programs->variant, {}, result).ok();
  }

  OrderTime unitTime() {
    for (plan::Program &program : programs->variant.programs)
      for (plan::Operation &operation : program.operations)
        operation.cost = !plan::isCompute(operation.kind) ? 0 : operation.kind == plan::Kind::Backward ? 2 : 1;
    simulate::Result result;
    (void)simulate::simulate(programs->variant, {}, result); // times change nothing of whether it ends
    return {result.makespan, simulate::bubbleRate(result, result.makespan)};
  }

  /// The cycle in which the order stops, from the cycle's first cell in the file on.
  std::vector<std::pair<Node, Step>> cycle() {
    done.resize(cells.rows.size());
    for (size_t rank = 0; rank != cells.rows.size(); ++rank)
      done[rank].resize(cells.rows[rank].size());
    simulate::Options options;
    options.observe = [&](const simulate::Event &event) {
      done[size_t(event.rank)][size_t(event.index)] = true;
      ++count;
    };
    simulate::Result result;
    (void)simulate::simulate(programs->variant, options, result);

    std::vector<std::pair<Node, Step>> chain;
    Node at = anyStanding();
    for (auto seen = chain.end();; at = chain.back().second.next) {
      seen = std::find_if(chain.begin(), chain.end(), [&](const auto &link) { return link.first == at; });
      if (seen != chain.end()) {
        chain.erase(chain.begin(), seen);
        break;
      }
      chain.push_back({at, blocker(at)});
    }
    auto inFile = [&](const auto &a, const auto &b) {
      return std::pair(a.first.rank, cell(a.first).column) < std::pair(b.first.rank, cell(b.first).column);
    };
    std::rotate(chain.begin(), std::min_element(chain.begin(), chain.end(), inFile), chain.end());
    return chain;
  }

  const Cell &cell(Node node) const { return cells.rows[node.rank][node.place]; }
  std::string refer(Node node) const {
    return fmt::format("{} ({}:{})", nameOf(cell(node)), node.rank + 1, cell(node).column);
  }

  /// How many cells ran before the order stopped.
  size_t ran() const { return count; }

  /// The cycle holds none of the transfers that PyTorch adds.
  uint32_t placeInFile(Node node) const {
    const Cell &own = cell(node);
    return passesAlone ? givenIndex.at(own.action, own.stage, own.microbatch) : node.place;
  }

private:
  /// The first cell of a queue that has not run.
  std::optional<uint32_t> head(size_t rank, uint32_t queue) const {
    for (uint32_t place : programs->queues[rank][queue])
      if (!done[rank][place])
        return place;
    return std::nullopt;
  }

  Node anyStanding() const {
    for (size_t rank = 0; rank != cells.rows.size(); ++rank)
      for (uint32_t place = 0; place != cells.rows[rank].size(); ++place)
        if (!done[rank][place])
          return {rank, place};
    return {};
  }

  Node placeOf(Action action, int32_t stage, int32_t microbatch) const {
    return {size_t(index.rankOf[size_t(stage)]), index.at(action, stage, microbatch)};
  }

  Step blocker(Node node) const {
    const Cell &own = cell(node);
    const uint32_t queue = programs->variant.programs[node.rank].instructions[node.place].queue;
    const uint32_t first = *head(node.rank, queue); // the node itself has not run
    if (first != node.place)
      return {{node.rank, first},
              queue == 0 ? "{} stands behind {} in its row" : "{} stands behind {} on its communicator"};
    if (!isTransfer(own.action))
      return missingInput(node);
    if (auto pass = head(node.rank, 0); pass && *pass < node.place)
      return {{node.rank, *pass}, "{} stands behind {} in its row"};
    if (programs->variant.launchOrder)
      if (const std::optional<uint32_t> earlier = notStarted(node))
        return {{node.rank, *earlier}, "{} starts behind {} in its row"};
    return {placeOf(otherEnd(own.action), otherStage(own), own.microbatch), "{} waits for its other end {}"};
  }

  /// The first transfer before this one in its row that has not started, if there is one: all passes before them have
  /// run, so only a transfer before it on its communicator can hold it up.
  std::optional<uint32_t> notStarted(Node node) const {
    const std::vector<plan::Instruction> &instructions = programs->variant.programs[node.rank].instructions;
    for (uint32_t place = 0; place != node.place; ++place)
      if (isTransfer(cells.rows[node.rank][place].action) && !done[node.rank][place] &&
          head(node.rank, instructions[place].queue) != place)
        return place;
    return std::nullopt;
  }

  /// Of a pass, or a WAIT_SEND, at the head of its row.
  Step missingInput(Node node) const {
    const Cell &own = cell(node);
    if (isWaitSend(own.action))
      return {placeOf(own.action == Action::WaitSendF ? Action::SendF : Action::SendB, own.stage, own.microbatch),
              "{} waits for {} to end"};
    const std::vector<Cell> &row = cells.rows[node.rank];
    for (uint32_t place = node.place; place <= node.place + (own.opensPair ? 1u : 0u); ++place) {
      const Cell &taker = row[place];
      const Action recv = taker.action == Action::F ? Action::RecvF : Action::RecvB;
      const uint32_t from = index.at(recv, taker.stage, taker.microbatch);
      if (from == OrderIndex::kNowhere || done[node.rank][from])
        continue;
      if (!passesAlone)
        return {{node.rank, from}, "{} takes what {} receives"};
      const int32_t other = otherStage(row[from]);
      const uint32_t made = recv == Action::RecvF ? index.at(Action::F, other, taker.microbatch)
                                                  : index.backward(other, taker.microbatch);
      return {{size_t(index.rankOf[size_t(other)]), made}, "{} takes what {} yields"};
    }
    return {node, "{} waits for itself, {}"}; // it has all it takes, so the walk would have run it
  }

  const bool passesAlone; // the file leaves transfers to PyTorch
  const OrderCells added;
  const OrderCells &cells;
  OrderIndex ownIndex;
  const OrderIndex &givenIndex;
  const OrderIndex &index;
  std::optional<OrderPrograms> programs;
  std::vector<std::vector<bool>> done; // by rank and cell
  size_t count = 0;
};

} // namespace

const char *name(Communicator communicator) {
  constexpr const char *kNames[] = {"per_edge", "per_pair", "launch_order", "shared"};
  return kNames[size_t(communicator)];
}

bool proveOrder(const OrderCells &cells, const OrderIndex &index, Communicator communicator, OrderStop &stop) {
  // What ends on one queue ends in launch order too; the walk says of the rest.
  const Communicator quick = communicator == Communicator::LaunchOrder ? Communicator::Shared : communicator;
  if (cells.format == schedule::OrderFormat::ComputeComms && flows(cells, index, quick))
    return true;
  Proof proof(cells, index, communicator);
  if (proof.ends())
    return true;
  const auto cycle = proof.cycle();
  const Node first = cycle.front().first;
  stop.error = {int(first.rank) + 1, proof.cell(first).column,
                fmt::format("the order stops in a cycle of {} cells, each waiting for the next", cycle.size()), true};
  for (const auto &[node, step] : cycle)
    stop.notes.push_back({int(node.rank) + 1, proof.cell(node).column,
                          fmt::format(fmt::runtime(step.why), nameOf(proof.cell(node)), proof.refer(step.next))});
  if (std::string mended = mendOrder(cells, communicator); !mended.empty())
    stop.notes.push_back({0, 0, std::move(mended)});
  return false;
}

OrderTime timeOrder(const OrderCells &cells, const OrderIndex &index, Communicator communicator) {
  return Proof(cells, index, communicator).unitTime();
}

OrderRun runOrder(const OrderCells &cells, const OrderIndex &index, Communicator communicator) {
  Proof proof(cells, index, communicator);
  OrderRun run;
  run.ends = proof.ends();
  if (run.ends)
    return run;
  for (const auto &[node, step] : proof.cycle()) {
    if (isWaitSend(proof.cell(node).action))
      run.behind.push_back({node.rank, proof.placeInFile(node), proof.placeInFile(node)});
    else if (node.rank == step.next.rank && node.place > step.next.place)
      run.behind.push_back({node.rank, proof.placeInFile(node), proof.placeInFile(step.next)});
  }
  run.done = proof.ran();
  return run;
}

} // namespace pipec::emit
