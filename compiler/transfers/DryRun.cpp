#include "compiler/transfers/DryRun.h"

namespace pipec {

namespace {

class StepRun {
public:
  explicit StepRun(const Traffic &traffic)
      : traffic(traffic), passCan(traffic.passes.size()), sendCan(traffic.moves.size()), recvCan(traffic.moves.size()) {
    for (size_t i = 0; i != traffic.passes.size(); ++i)
      passCan[i] = traffic.passes[i].in == Traffic::kNone;
  }

  // Asked again and again, so a cell that is done notes it for those that it lets go on.
  bool can(const Cell &cell) const {
    return (cell.kind == Cell::Kind::Pass ? passCan : cell.kind == Cell::Kind::Send ? sendCan : recvCan)[cell.index];
  }
  void retire(const Cell &cell) {
    if (cell.kind == Cell::Kind::Send)
      recvCan[cell.index] = true;
    else if (cell.kind == Cell::Kind::Recv)
      passCan[traffic.moves[cell.index].consumer] = true;
    else if (const uint32_t out = traffic.passes[cell.index].out; out != Traffic::kNone)
      sendCan[out] = true;
  }
  /// In each step lets ranks act in turn, then once more those that had to wait for a later rank, until none can.
  /// Returns the number of steps.
  template <typename Act> int64_t run(Act act) {
    std::vector<uint32_t> idle;
    for (int64_t steps = 0;; ++steps) {
      idle.clear();
      bool progress = false;
      for (uint32_t rank = 0; rank != traffic.ranks(); ++rank)
        if (act(rank))
          progress = true;
        else
          idle.push_back(rank);
      if (!progress)
        return steps;
      for (const uint32_t rank : idle)
        act(rank);
    }
  }

private:
  const Traffic &traffic;
  std::vector<char> passCan, sendCan, recvCan; // quicker than bits
};

/// Where the next pass, or the next transfer, of a row stands.
size_t nextIn(const std::vector<Cell> &row, size_t from, bool isPass) {
  while (from != row.size() && (row[from].kind == Cell::Kind::Pass) != isPass)
    ++from;
  return from;
}

} // namespace

int64_t stepsOf(const Traffic &traffic, const Rows &rows) {
  StepRun run(traffic);
  std::vector<size_t> next(rows.size());
  return run.run([&](uint32_t rank) {
    if (next[rank] == rows[rank].size() || !run.can(rows[rank][next[rank]]))
      return false;
    run.retire(rows[rank][next[rank]++]);
    return true;
  });
}

Rows packed(const Traffic &traffic, const Rows &rows, Overtaking overtaking, int64_t &steps) {
  StepRun run(traffic);
  Rows made(rows.size());
  for (size_t rank = 0; rank != rows.size(); ++rank)
    made[rank].reserve(rows[rank].size());
  std::vector<size_t> passAt(rows.size()), moveAt(rows.size());
  for (size_t rank = 0; rank != rows.size(); ++rank) {
    passAt[rank] = nextIn(rows[rank], 0, true);
    moveAt[rank] = nextIn(rows[rank], 0, false);
  }
  // A rank stands idle only where none of its cells can be done, so the rows that come out run in the same steps.
  steps = run.run([&](uint32_t rank) {
    const std::vector<Cell> &row = rows[rank];
    size_t &pass = passAt[rank], &move = moveAt[rank];
    const bool passCan = pass != row.size() && run.can(row[pass]), moveCan = move != row.size() && run.can(row[move]);
    const bool takesPass = passCan && (pass < move ? !(moveCan && move - pass <= overtaking.transfers)
                                                   : !moveCan && pass - move <= overtaking.passes);
    if (!takesPass && !moveCan)
      return false;
    size_t &at = takesPass ? pass : move;
    run.retire(made[rank].emplace_back(row[at]));
    at = nextIn(row, at + 1, takesPass);
    return true;
  });
  return made;
}

} // namespace pipec
