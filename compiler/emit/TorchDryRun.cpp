#include "compiler/emit/TorchDryRun.h"

#include <map>
#include <tuple>

namespace pipec::emit {

using schedule::Action;

namespace {

/// What a transfer carries: forward, the stage it comes from, the microbatch.
using Payload = std::tuple<bool, int32_t, int32_t>;

bool isForward(Action action) { return action == Action::F || action == Action::SendF || action == Action::RecvF; }

/// What a pass gives, and a SEND carries; of another cell of its stage, what it takes.
Payload given(const schedule::Cell &cell) { return {isForward(cell.action), cell.stage, cell.microbatch}; }
Payload taken(const schedule::Cell &cell) {
  const bool forward = isForward(cell.action);
  return {forward, cell.stage + (forward ? -1 : 1), cell.microbatch};
}

} // namespace

TorchDryRun::TorchDryRun(const CellRows &rows) : rows(rows) {
  std::map<Payload, uint32_t> moves;
  for (const auto &row : rows)
    for (const schedule::Cell &cell : row)
      if (isSend(cell.action))
        moves.emplace(given(cell), uint32_t(moves.size()));
  traffic.moves.resize(moves.size());
  send.resize(moves.size());
  recv.resize(moves.size());
  auto moveOf = [&](const Payload &payload) {
    const auto found = moves.find(payload);
    return found == moves.end() ? Traffic::kNone : found->second;
  };
  for (const auto &row : rows) {
    std::vector<Cell> &made = numbered.emplace_back();
    for (const schedule::Cell &cell : row) {
      if (isTransfer(cell.action)) {
        const bool sends = isSend(cell.action);
        const uint32_t move = moveOf(sends ? given(cell) : taken(cell));
        (sends ? send : recv)[move] = &cell;
        made.push_back({sends ? Cell::Kind::Send : Cell::Kind::Recv, move});
        continue;
      }
      Traffic::Pass pass;
      if (cell.action != Action::W) {
        pass.in = moveOf(taken(cell));
        pass.out = moveOf(given(cell));
      }
      const uint32_t index = uint32_t(traffic.passes.size());
      if (pass.in != Traffic::kNone)
        traffic.moves[pass.in].consumer = index;
      if (pass.out != Traffic::kNone)
        traffic.moves[pass.out].producer = index;
      made.push_back({Cell::Kind::Pass, index});
      traffic.passes.push_back(pass);
      cellOfPass.push_back(&cell);
    }
    traffic.first.push_back(uint32_t(traffic.passes.size()));
  }
}

CellRows TorchDryRun::packed(Overtaking overtaking) const {
  CellRows made;
  for (const std::vector<Cell> &row : pipec::packed(traffic, numbered, overtaking)) {
    std::vector<schedule::Cell> &cells = made.emplace_back();
    cells.reserve(row.size());
    for (const Cell &cell : row)
      cells.push_back(*(cell.kind == Cell::Kind::Pass   ? cellOfPass
                        : cell.kind == Cell::Kind::Send ? send
                                                        : recv)[cell.index]);
  }
  return made;
}

} // namespace pipec::emit
