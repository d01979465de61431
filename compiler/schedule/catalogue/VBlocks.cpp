// V-Min, V-Half and V-ZB (Qi et al., Pipeline Parallelism with Controllable Memory, arXiv 2405.15362, section 3.3 and
// tables 8 and 9; slots as in sail-sg's zbv_greedy.py): two chunks a rank, there and back, so that what a rank holds
// long is paired with what it holds briefly. Hops of one, two or four slots trade memory for room between passes. Six
// slots a microbatch: F, B, W of each chunk.
#include "compiler/schedule/catalogue/Entries.h"
#include "compiler/schedule/construct/Refill.h"

#include <array>

namespace pipec::schedule {

namespace {

/// How a microbatch goes, in slots; the backward goes the forward's way.
struct VShape {
  int64_t down, up; // a hop of the first chunk, of the second
  int64_t loss;     // what the first B waits beyond the slot after the last F
  int64_t turn;     // from the second chunk's B to the first's on the last rank
};

/// W takes the first slot after its B that is free modulo six, the second chunk's first.
void addWeights(Block &block, int64_t p) {
  block.backwardWeight.resize(size_t(2 * p));
  for (int64_t i = 0; i < p; ++i) {
    const std::array<size_t, 2> chunks = {size_t(2 * p - 1 - i), size_t(i)};
    std::array<bool, 6> busy = {};
    for (const size_t s : chunks)
      busy[size_t(block.forward[s] % 6)] = busy[size_t(block.backwardInput[s] % 6)] = true;
    for (const size_t s : chunks) {
      int64_t slot = block.backwardInput[s] + 1;
      while (busy[size_t(slot % 6)])
        ++slot;
      busy[size_t(slot % 6)] = true;
      block.backwardWeight[s] = slot;
    }
  }
}

Block vBlock(const Problem &problem, const VShape &shape) {
  const int64_t p = problem.ranks;
  Block block;
  block.interval = 6;
  block.backwardInput.resize(size_t(2 * p));
  for (int64_t i = 0; i < p; ++i)
    block.forward.push_back(shape.down * i);
  for (int64_t i = p; i-- > 0;) // the turn on the last rank takes one slot
    block.forward.push_back(shape.down * (p - 1) + 1 + shape.up * (p - 1 - i));
  const int64_t loss = block.forward.back() + 1 + shape.loss;
  for (int64_t i = 0; i < p; ++i)
    block.backwardInput[size_t(2 * p - 1 - i)] = loss + shape.down * i;
  for (int64_t i = 0; i < p; ++i)
    block.backwardInput[size_t(i)] = loss + shape.down * (p - 1) + shape.turn + shape.up * (p - 1 - i);
  addWeights(block, p);
  return block;
}

Entry vEntry(std::string_view name, std::string_view bubble, std::string_view memory,
             Words (*words)(const Problem &, const Parameters &)) {
  return {.name = name,
          .aliases = {},
          .defaultBackward = BackwardMode::Split,
          .allowsFused = false,
          .allowsSplit = true,
          .stagesPerRank = 2,
          .placement = "v",
          .source = "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362, section 3.3",
          .bubble = bubble,
          .memory = memory,
          .words = words};
}

} // namespace

Entry vMin() {
  return vEntry("v-min",
                "at most 2p/3 (F+B+W) in all, equal stages, F = B = W, m >= p, no transfers; each microbatch up to "
                "6 max(f,b,w) + 6c, f, b, w of a chunk",
                "2 floor((p+4)/3) chunks, about a third of 1F1B's", [](const Problem &problem, const Parameters &) {
                  return refill(problem, vBlock(problem, {1, 1, problem.ranks % 3 == 0 ? 2 : 0, 1}));
                });
}

Entry vHalf() {
  return vEntry("v-half",
                "at most p/2 (F+B+W) in all, equal stages, F = B = W, m >= p, no transfers; each microbatch up to "
                "max(2(f+b+w), 4f+w, 4b+w) + 4c, seldom up to a tenth more, f, b, w of a chunk",
                "2 floor((p+2)/2) chunks, about half of 1F1B's", [](const Problem &problem, const Parameters &) {
                  return refill(problem, vBlock(problem, {2, 1, problem.ranks % 2 == 0 ? 3 : 0, 2}));
                });
}

Entry vZb() {
  return vEntry(
      "v-zb",
      "(p-1)F + transfers where F = B = W of one chunk, equal stages, m >= 2p; none from step to step where p >= 3",
      "2p chunks, as much as 1F1B",
      [](const Problem &problem, const Parameters &) { return refill(problem, vBlock(problem, {4, 2, 0, 1})); });
}

} // namespace pipec::schedule
