// Passes and the transfers between them as plain arrays, without IR, for choosing the order of transfers; and rows, the
// order in which each rank does them.
#pragma once

#include "runtime/plan/Plan.h"

#include <cstdint>
#include <vector>

namespace pipec {

/// Passes and transfers as nodes: first the passes of all ranks, rank by rank in the order in which each runs its own,
/// then the transfers.
struct Traffic {
  using Node = uint32_t;
  static constexpr uint32_t kNone = ~uint32_t(0);

  struct Pass {
    plan::Time cost = 0;
    int32_t microbatch = 0;
    uint32_t in = kNone, out = kNone; // transfer of its input, and transfer of its result
  };
  struct Move {
    uint32_t producer = 0, consumer = 0; // passes
    uint32_t sends = 0, receives = 0;    // queues, numbered over all ranks
    plan::Time cost = 0, latency = 0;
  };

  std::vector<uint32_t> first = {0}; // first[r]: first pass of rank r; then the number of passes
  std::vector<Pass> passes;
  std::vector<Move> moves;
  uint32_t queues = 0;

  uint32_t ranks() const { return uint32_t(first.size()) - 1; }
  size_t size() const { return passes.size() + moves.size(); }
  bool isMove(Node node) const { return node >= passes.size(); }
  uint32_t moveAt(Node node) const { return node - uint32_t(passes.size()); }
  Node nodeOf(uint32_t move) const { return uint32_t(passes.size()) + move; }
};

/// One entry of a rank's row: a pass, or one end of a transfer.
struct Cell {
  enum class Kind : uint8_t { Pass, Send, Recv } kind;
  uint32_t index; // index in passes or moves
  bool operator==(const Cell &) const = default;
};
using Rows = std::vector<std::vector<Cell>>;

} // namespace pipec
