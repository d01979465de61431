// Rows are cut from one order of all passes and transfers in which every dependence points forward. So no row waits for
// another in a cycle, whichever transfers share a communicator (OrderProof.h), and rows placed for one queue model also
// end on the others. Several such orders are tried. One is that of the predicted run, a pass by when it ends, a
// transfer by when it starts: in PyTorch a transfer also waits for every pass before it in its row, but those have
// ended by then, so the transfer starts as predicted. The others know less of times: the plan's order; the same with a
// quick start (TorchRows.h); and the first one packed, where a pass that can run overtakes a transfer that cannot yet
// be done. Taken is the one with the fewest steps in PyTorch's dry run, where everything takes equally long, among
// those that last no longer than the first. Where all transfers share a queue, in which a late one makes the others
// late, it may last a 20th longer.
#include "compiler/torch/TorchCsv.h"

#include "compiler/torch/OrderProof.h"
#include "compiler/torch/TorchRows.h"
#include "compiler/transfers/DryRun.h"
#include "compiler/transfers/RowRun.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace pipec::emit {

using schedule::Action;
using schedule::Cell;
using schedule::OrderFormat;
using schedule::TorchRelease;

namespace {

/// What a release expects in a row beside passes and transfers.
class RowFiller {
public:
  RowFiller(const std::vector<Cell> &row, TorchRelease release) : row(row), release(release) {
    for (const Cell &cell : row)
      if (isPass(cell.action)) {
        if (++stages[cell.stage].left == 1)
          byFirstUse.push_back(cell.stage);
      } else if (cell.action == Action::SendF) {
        stages[cell.stage].sends = true;
      }
  }

  std::vector<Cell> run() {
    gather(byFirstUse.front()); // each rank has a stage, and a stage passes
    for (size_t at = 0; at != row.size(); ++at) {
      const Cell &cell = row[at];
      if (!isPass(cell.action)) {
        made.push_back(cell);
        continue;
      }
      const bool closes = at > 0 && row[at - 1].opensPair; // between the two nothing stands
      if (!closes)
        finishStage();
      gather(cell.stage);
      if (cell.opensPair)
        gather(row[at + 1].stage);
      made.push_back(cell);
      Stage &stage = stages[cell.stage];
      // The local backward shows that the peer has taken what was sent forward, so this wait holds up nothing.
      if (release == TorchRelease::V2_15 && stage.sends && (cell.action == Action::B || cell.action == Action::I))
        add(Action::WaitSendF, cell.stage, cell.microbatch);
      if (--stage.left == 0)
        finished = cell.stage;
    }
    finishStage();
    // Earlier, the wait could hold up what the peer needs before it takes a gradient.
    for (const Cell &cell : row)
      if (release == TorchRelease::V2_15 && cell.action == Action::SendB)
        add(Action::WaitSendB, cell.stage, cell.microbatch);
    return std::move(made);
  }

private:
  struct Stage {
    int32_t left = 0; // passes still to come
    bool sends = false, gathered = false;
  };

  void add(Action action, int32_t stage, int32_t microbatch = -1) {
    made.push_back({.action = action, .stage = stage, .microbatch = microbatch});
  }

  /// A stage's parameters are gathered when the stage before it is first run; those of the first two stages at once.
  void gather(int32_t stage) {
    for (size_t k = 0; k != 2 && next != byFirstUse.size() && (next == 0 || byFirstUse[next - 1] == stage); ++k)
      add(Action::Unshard, byFirstUse[next++]);
  }

  /// A stage's REDUCE_GRAD stands behind the transfers that follow its last pass, so that none of them waits for it.
  void finishStage() {
    if (finished < 0)
      return;
    if (release != TorchRelease::V2_8)
      add(Action::ReduceGrad, finished);
    if (release == TorchRelease::V2_15)
      add(Action::WaitReduceGrad, finished);
    add(Action::Reshard, finished);
    finished = -1;
  }

  const std::vector<Cell> &row;
  const TorchRelease release;
  std::map<int32_t, Stage> stages;
  std::vector<int32_t> byFirstUse; // stages
  size_t next = 0;                 // of byFirstUse, to be gathered
  int32_t finished = -1;           // the stage whose last pass has just run
  std::vector<Cell> made;
};

/// Releases before 2.9 have no pairs: the two run one after the other.
schedule::OrderCells filled(CellRows rows, OrderFormat format, TorchRelease release) {
  schedule::OrderCells cells;
  cells.format = format;
  cells.release = release;
  for (std::vector<Cell> &row : rows)
    for (Cell &cell : row) {
      cell.opensPair &= release != TorchRelease::V2_8;
      cells.pairs |= cell.opensPair;
    }
  for (const std::vector<Cell> &row : rows) {
    std::vector<Cell> &made = cells.rows.emplace_back();
    if (format == OrderFormat::ComputeComms)
      made = RowFiller(row, release).run();
    else
      std::copy_if(row.begin(), row.end(), std::back_inserter(made),
                   [](const Cell &cell) { return isPass(cell.action); });
  }
  return cells;
}

/// The rows of the predicted run, or others, where with their transfers they take fewer steps and last no longer, or,
/// in one queue, not much.
CellRows bestRows(const plan::Variant &variant, OrderFormat format, const simulate::Result *run) {
  const bool oneQueue = communicatorOf(variant) == Communicator::Shared;
  const auto mayLast = [&](plan::Time predicted) { return oneQueue ? predicted + predicted / 20 : predicted; };
  const TorchRows known(variant);
  const Traffic &traffic = known.traffic;
  const Rows predicted = known.predicted(run);
  if (format == OrderFormat::ComputeOnly || known.hasPairs()) // PyTorch's dry run knows no pairs
    return known.cellsOf(predicted);
  int64_t packedSteps = 0;
  const Rows packed = pipec::packed(traffic, predicted, {.passes = 1}, packedSteps);
  const Rows quick = known.quickStart(known.issued());
  std::optional<plan::Time> makespan; // as predicted, once asked for
  const Rows *best = &predicted;
  int64_t steps = stepsOf(traffic, predicted);
  for (const Rows *rows : {&packed, &known.issued(), &quick}) {
    const int64_t its = rows == &packed ? packedSteps : stepsOf(traffic, *rows);
    if (its >= steps)
      continue;
    const std::optional<plan::Time> lasts = makespanOf(traffic, *rows);
    if (!makespan)
      makespan = makespanOf(traffic, predicted);
    if (!lasts || (makespan && *lasts > mayLast(*makespan)))
      continue;
    best = rows;
    steps = its;
  }
  return known.cellsOf(*best);
}

/// Why the format cannot carry the variant; empty where it can.
std::string refusal(const plan::Variant &variant) {
  if (variant.copies > 1)
    return "PyTorch's order files have each stage on one rank, here two copies of it are on two";
  if (variant.slices > 1)
    return "PyTorch's order files have no slices of microbatches";
  bool backward = false;
  for (const plan::Program &program : variant.programs)
    for (const plan::Operation &operation : program.operations) {
      // The caller steps and sums by himself; a pair is two cells.
      if (*plan::rowOf(operation.kind).torch == 0 && !plan::isOfStage(operation.kind) &&
          operation.kind != plan::Kind::AllReduce)
        return fmt::format("PyTorch's order files have no {}", plan::name(operation.kind));
      backward |= plan::does(operation.kind, plan::kInputGradient);
    }
  return backward ? "" : "PyTorch's order files are of training: each forward in them has a backward, here none has";
}

/// A cell as the file has it, with what separates it from the next.
void appendCell(std::string &text, const Cell &cell, bool closes) {
  if (cell.opensPair)
    text += '(';
  appendName(text, cell);
  if (closes)
    text += ")OVERLAP_F_B";
  text += cell.opensPair ? ';' : ',';
}

/// Sets the cells' columns as they will be in the file, so that errors about these cells name places in the file.
void setColumns(schedule::OrderCells &cells) {
  for (std::vector<Cell> &row : cells.rows) {
    std::string text;
    for (size_t at = 0; at != row.size(); ++at) {
      const bool closes = at > 0 && row[at - 1].opensPair;
      row[at].column = int32_t(text.size()) + 1 + int32_t(row[at].opensPair);
      appendCell(text, row[at], closes);
    }
  }
}

} // namespace

Communicator communicatorOf(const plan::Variant &variant) {
  size_t queues = 0, peers = 0, directions = 0;
  for (const plan::Program &program : variant.programs) {
    std::set<std::pair<int32_t, plan::Kind>> ends;
    std::set<int32_t> others;
    for (const plan::Operation &operation : program.operations)
      if (plan::isTransfer(operation.kind)) {
        ends.emplace(operation.peer, operation.kind);
        others.insert(operation.peer);
      }
    std::set<uint32_t> used;
    for (const plan::Instruction &instruction : program.instructions)
      if (plan::isTransfer(program.operations[instruction.operation].kind))
        used.insert(instruction.queue);
    queues += used.size();
    peers += others.size();
    directions += ends.size();
  }
  if (queues == 0)
    return Communicator::Shared;
  if (variant.launchOrder)
    return Communicator::LaunchOrder;
  return queues == directions ? Communicator::PerEdge : queues == peers ? Communicator::PerPair : Communicator::Shared;
}

Status torchCells(const plan::Variant &variant, OrderFormat format, TorchRelease release, schedule::OrderCells &cells,
                  const simulate::Result *run) {
  if (std::string why = refusal(variant); !why.empty())
    return Status::input(std::move(why));
  cells = filled(bestRows(variant, format, run), format, release);
  // The strongest queue model: what ends there ends on the others.
  schedule::OrderIndex index;
  OrderStop stop;
  auto holds = [&] {
    return checkCells(cells, index, stop.error) && proveOrder(cells, index, Communicator::Shared, stop);
  };
  if (holds())
    return {};
  setColumns(cells);
  (void)holds(); // again, with the places
  return Status::check(fmt::format("internal: the exported order is wrong at {}:{}: {}; please report this spec",
                                   stop.error.line, stop.error.column, stop.error.message));
}

std::string torchCsv(const schedule::OrderCells &cells) {
  std::string text, line;
  for (const std::vector<Cell> &row : cells.rows) {
    line.clear();
    for (size_t at = 0; at != row.size(); ++at)
      appendCell(line, row[at], at > 0 && row[at - 1].opensPair);
    line.back() = '\n';
    text += line;
  }
  return text;
}

bool findRelease(std::string_view name, TorchRelease &release) {
  constexpr std::string_view kNames[] = {"2.8", "2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15"};
  // "2.12.1+cpu" is a 2.12.
  const size_t point = name.find('.');
  const size_t end = point == std::string_view::npos ? name.size() : name.find_first_not_of("0123456789", point + 1);
  const auto known = std::find(std::begin(kNames), std::end(kNames), name.substr(0, end));
  if (known == std::end(kNames) || (end < name.size() && name[end] != '.' && name[end] != '+'))
    return false;
  const auto minor = known - std::begin(kNames) + 8;
  release = minor < 10 ? TorchRelease::V2_8 : minor < 15 ? TorchRelease::V2_10 : TorchRelease::V2_15;
  return true;
}

} // namespace pipec::emit
