#include "compiler/torch/TorchRows.h"

#include "compiler/transfers/TransferOrder.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace pipec::emit {

using schedule::Action;

namespace {

/// The transfers by what they carry.
class Moves {
public:
  explicit Moves(const plan::Variant &variant)
      : microbatches(size_t(variant.microbatches)), moves(size_t(variant.stages) * microbatches * 2, Traffic::kNone) {}

  /// What a stage gives: its activation forward, or its gradient.
  uint32_t &from(int32_t stage, bool forward, int64_t microbatch) {
    return moves[(size_t(stage) * microbatches + size_t(microbatch)) * 2 + forward];
  }
  /// What it takes; `none` if there is no stage that gives it.
  uint32_t to(int32_t stage, bool forward, int64_t microbatch) {
    const int32_t giver = stage + (forward ? -1 : 1);
    return giver < 0 || size_t(giver) * microbatches * 2 >= moves.size() ? Traffic::kNone
                                                                         : from(giver, forward, microbatch);
  }

private:
  size_t microbatches;
  std::vector<uint32_t> moves;
};

} // namespace

TorchRows::TorchRows(const plan::Variant &variant) : variant(variant) {
  Moves moves(variant);
  auto each = [&](const plan::Program &program, auto visit) {
    for (plan::Cursor cursor(program); !cursor.done(); cursor.next())
      visit(cursor.at());
  };
  uint32_t count = 0;
  for (const plan::Program &program : variant.programs)
    each(program, [&](const plan::Step &step) {
      const plan::Operation &operation = *step.operation;
      if (plan::sends(operation.kind))
        moves.from(operation.stage, operation.of == plan::Payload::Forward, step.microbatch()) = count++;
    });
  traffic.moves.resize(count);
  sends.resize(count);
  receives.resize(count);
  for (const plan::Program &program : variant.programs) {
    std::vector<Cell> &row = rows.emplace_back();
    std::vector<uint32_t> &places = cellAt.emplace_back();
    bool opens = false;                                                 // the F behind the header of an overlapped pair
    std::map<std::tuple<int32_t, plan::Kind, int64_t>, uint32_t> whole; // a pass in parts is one where it begins
    each(program, [&](const plan::Step &step) {
      const plan::Operation &operation = *step.operation;
      const bool opensPair = !plan::isTransfer(operation.kind) && std::exchange(opens, plan::isHeader(operation.kind));
      bool hasCell = *plan::rowOf(operation.kind).torch != 0;
      if (hasCell && operation.layers != 0) {
        const auto [known, begins] =
            whole.try_emplace({operation.stage, operation.kind, step.microbatch()}, uint32_t(traffic.passes.size()));
        hasCell = begins;
        if (!begins)
          traffic.passes[known->second].cost += operation.cost;
      }
      places.push_back(hasCell ? uint32_t(row.size()) : kNoCell);
      if (!hasCell)
        return;
      const schedule::Cell cell{.action = schedule::actionOf(operation.kind, operation.of),
                                .opensPair = opensPair,
                                .stage = operation.stage,
                                .microbatch = int32_t(step.microbatch())};
      const uint32_t queue = traffic.queues + step.instruction->queue;
      if (plan::sends(operation.kind)) {
        const uint32_t index = moves.from(cell.stage, operation.of == plan::Payload::Forward, cell.microbatch);
        Traffic::Move &move = traffic.moves[index];
        move.sends = queue;
        move.cost = operation.cost;
        move.latency = operation.latency;
        sends[index] = cell;
        row.push_back({Cell::Kind::Send, index});
        return;
      }
      const plan::Payload of =
          plan::isCompute(operation.kind) ? plan::rowOf(operation.kind).gives : operation.of; // None of a W
      const bool forward = of == plan::Payload::Forward;
      const uint32_t taken =
          of == plan::Payload::None ? Traffic::kNone : moves.to(cell.stage, forward, cell.microbatch);
      if (plan::receives(operation.kind)) {
        traffic.moves[taken].receives = queue;
        receives[taken] = cell;
        row.push_back({Cell::Kind::Recv, taken});
        return;
      }
      Traffic::Pass pass{operation.cost, cell.microbatch, taken, Traffic::kNone};
      const uint32_t index = uint32_t(traffic.passes.size());
      if (of != plan::Payload::None)
        pass.out = moves.from(cell.stage, forward, cell.microbatch);
      if (pass.in != Traffic::kNone)
        traffic.moves[pass.in].consumer = index;
      if (pass.out != Traffic::kNone)
        traffic.moves[pass.out].producer = index;
      traffic.passes.push_back(pass);
      passes.push_back(cell);
      row.push_back({Cell::Kind::Pass, index});
    });
    traffic.first.push_back(uint32_t(traffic.passes.size()));
    traffic.queues += uint32_t(program.queues.size());
  }
}

Rows TorchRows::predicted(const simulate::Result *run) const {
  simulate::Result walked;
  if (!run || run->places.front().visits.empty()) {
    simulate::Options options;
    options.keepVisits = true;
    (void)simulate::simulate(variant, options, walked); // it ends: check-deadlock has seen to that
    run = &walked;
  }
  struct Placed {
    plan::Time time;
    uint32_t
        met; // the walk meets what depends on something after it; twice as many as were, and 1 behind a pair's first
    Cell cell;
  };
  Rows made(rows.size());
  std::vector<Placed> placed;
  for (size_t rank = 0; rank != rows.size(); ++rank) {
    placed.clear();
    uint32_t opened = 0; // where the latest pair was met
    for (const simulate::Visit &visit : run->places[rank * size_t(variant.shards())].visits) {
      const uint32_t at = cellAt[rank][visit.index];
      if (at == kNoCell)
        continue;
      const Cell &cell = rows[rank][at];
      const bool transfers = cell.kind != Cell::Kind::Pass;
      const bool closes = !transfers && cell.index > traffic.first[rank] && passes[cell.index - 1].opensPair;
      uint32_t met = 2 * uint32_t(placed.size());
      if (!transfers && passes[cell.index].opensPair)
        opened = met;
      if (closes)
        met = opened + 1;
      placed.push_back({transfers ? visit.start : visit.end, met, cell});
    }
    std::sort(placed.begin(), placed.end(),
              [](const Placed &a, const Placed &b) { return std::tie(a.time, a.met) < std::tie(b.time, b.met); });
    made[rank].reserve(placed.size());
    for (const Placed &each : placed)
      made[rank].push_back(each.cell);
  }
  return made;
}

Rows TorchRows::quickStart(const Rows &rows) const {
  // level: how many passes stand before a pass on the longest way to it, transfers not counted. Any order that can run
  // serves to work this out.
  std::vector<uint32_t> level(traffic.passes.size()), rankOf(traffic.passes.size());
  for (uint32_t rank = 0; rank != traffic.ranks(); ++rank)
    std::fill(rankOf.begin() + traffic.first[rank], rankOf.begin() + traffic.first[rank + 1], rank);
  auto isForward = [&](uint32_t pass) { return passes[pass].action == Action::F; };
  uint64_t end = level.size();
  for (const Traffic::Node node : bySweep(traffic)) {
    if (traffic.isMove(node))
      continue;
    const Traffic::Pass &pass = traffic.passes[node];
    if (pass.in != Traffic::kNone)
      level[node] = level[traffic.moves[pass.in].producer] + 1;
    if (node != traffic.first[rankOf[node]])
      level[node] = std::max(level[node], level[node - 1] + 1);
    if (!isForward(node))
      end = std::min<uint64_t>(end, level[node]);
  }
  end = end * 3 / 10;
  // Passes of these levels, and what they give; at one level, first what the last ranks send.
  struct Early {
    uint32_t level;
    int32_t order;
    Traffic::Node node;
  };
  std::vector<Early> early;
  for (uint32_t node = 0; node != traffic.passes.size(); ++node)
    if (level[node] < end) {
      early.push_back({level[node], 1, node});
      if (const uint32_t out = traffic.passes[node].out; out != Traffic::kNone && level[node] + 1 < end)
        early.push_back({level[node] + 1, -int32_t(rankOf[node]), traffic.nodeOf(out)});
    }
  std::sort(early.begin(), early.end(), [](const Early &a, const Early &b) {
    return std::tie(a.level, a.order, a.node) < std::tie(b.level, b.order, b.node);
  });
  TransferOrder order;
  std::vector<bool> isEarly(traffic.size());
  for (const Early &each : early) {
    order.push_back(each.node);
    isEarly[each.node] = true;
  }
  Rows made = rowsOf(traffic, order);
  for (size_t rank = 0; rank != rows.size(); ++rank)
    for (const Cell &cell : rows[rank])
      if (!isEarly[cell.kind == Cell::Kind::Pass ? cell.index : traffic.nodeOf(cell.index)])
        made[rank].push_back(cell);
  return made;
}

bool TorchRows::hasPairs() const {
  return std::any_of(passes.begin(), passes.end(), [](const schedule::Cell &cell) { return cell.opensPair; });
}

CellRows TorchRows::cellsOf(const Rows &rows) const {
  CellRows made;
  for (const std::vector<Cell> &row : rows) {
    std::vector<schedule::Cell> &cells = made.emplace_back();
    cells.reserve(row.size());
    for (const Cell &cell : row)
      cells.push_back((cell.kind == Cell::Kind::Pass   ? passes
                       : cell.kind == Cell::Kind::Send ? sends
                                                       : receives)[cell.index]);
  }
  return made;
}

} // namespace pipec::emit
