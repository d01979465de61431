// 1F1B-V (Qi et al., Pipeline Parallelism with Controllable Memory, arXiv 2405.15362, figure 16; slots as in sail-sg's
// v1f1b.py): 1F1B with two chunks a rank, placed there and back, and the backward whole: about two thirds of 1F1B's
// activations. Six slots a microbatch: F one and B two of each chunk.
#include "compiler/schedule/catalogue/Entries.h"
#include "compiler/schedule/construct/Refill.h"

namespace pipec::schedule {

// Forwards take a slot a hop. Backwards take two, and three more on one hop in three, counted from the last rank, or
// they would meet the forwards.
static Block oneFOneBVBlock(const Problem &problem) {
  const int64_t p = problem.ranks;
  Block block;
  block.interval = 6;
  block.backwardInput.resize(size_t(2 * p));
  for (int64_t s = 0; s < 2 * p; ++s)
    block.forward.push_back(s);
  int64_t slot = 2 * p + (p % 3 == 0 ? 3 : 0);
  for (int64_t i = 0; i < p; ++i) {
    block.backwardInput[size_t(2 * p - 1 - i)] = slot;
    slot += (p - 1 - i) % 3 == 1 ? 5 : 2;
  }
  slot = block.backwardInput[size_t(p)] + 2;
  for (int64_t i = p; i-- > 0;) {
    block.backwardInput[size_t(i)] = slot;
    slot += (p - 1 - i) % 3 == 1 ? 5 : 2;
  }
  return block;
}

Entry oneFOneBV() {
  return {.name = "1f1b-v",
          .aliases = {},
          .defaultBackward = BackwardMode::Fused,
          .allowsFused = true,
          .allowsSplit = false,
          .stagesPerRank = 2,
          .placement = "v",
          .source = "Pipeline Parallelism with Controllable Memory, arXiv 2405.15362, figure 16",
          .bubble =
              "at most 5p/6 (F+B+W) in all, equal stages, 2F = B + W, m >= p, no transfers; each microbatch up to "
              "6 max(f, (b+w)/2) + 6c, f, b, w of a chunk",
          .memory = "2 ceil((2p+1)/3) chunks, about two thirds of 1F1B's",
          .words = [](const Problem &problem, const Parameters &) { return refill(problem, oneFOneBVBlock(problem)); }};
}

} // namespace pipec::schedule
