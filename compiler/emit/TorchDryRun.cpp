#include "compiler/emit/TorchDryRun.h"

#include <algorithm>

namespace pipec::emit {

using schedule::Action;

namespace {

bool isForward(Action action) { return action == Action::F || action == Action::SendF || action == Action::RecvF; }

/// The transfers by what they carry: an activation or a gradient, of a stage and microbatch.
class Moves {
public:
  explicit Moves(const CellRows &rows) {
    int32_t stages = 0;
    for (const auto &row : rows)
      for (const schedule::Cell &cell : row) {
        stages = std::max(stages, cell.stage + 1);
        microbatches = std::max(microbatches, size_t(cell.microbatch) + 1);
      }
    moves.assign(size_t(stages) * microbatches * 2, Traffic::kNone);
    for (const auto &row : rows)
      for (const schedule::Cell &cell : row)
        if (isSend(cell.action))
          moves[at(cell.stage, cell)] = count++;
  }

  /// What a pass gives, and a SEND carries; kNone if it stays on the rank.
  uint32_t given(const schedule::Cell &cell) const { return moves[at(cell.stage, cell)]; }
  /// What a pass, or a RECV, takes.
  uint32_t taken(const schedule::Cell &cell) const {
    const int32_t from = cell.stage + (isForward(cell.action) ? -1 : 1);
    const bool exists = from >= 0 && at(from, cell) < moves.size();
    return exists ? moves[at(from, cell)] : Traffic::kNone;
  }

  uint32_t count = 0;

private:
  size_t at(int32_t stage, const schedule::Cell &cell) const {
    return (size_t(stage) * microbatches + size_t(cell.microbatch)) * 2 + isForward(cell.action);
  }

  size_t microbatches = 0;
  std::vector<uint32_t> moves;
};

} // namespace

TorchDryRun::TorchDryRun(const CellRows &rows) {
  const Moves moves(rows);
  traffic.moves.resize(moves.count);
  send.resize(moves.count);
  recv.resize(moves.count);
  for (const auto &row : rows) {
    std::vector<Cell> &made = numbered.emplace_back();
    for (const schedule::Cell &cell : row) {
      if (isTransfer(cell.action)) {
        const bool sends = isSend(cell.action);
        const uint32_t move = sends ? moves.given(cell) : moves.taken(cell);
        (sends ? send : recv)[move] = &cell;
        made.push_back({sends ? Cell::Kind::Send : Cell::Kind::Recv, move});
        continue;
      }
      Traffic::Pass pass;
      if (cell.action != Action::W) {
        pass.in = moves.taken(cell);
        pass.out = moves.given(cell);
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
