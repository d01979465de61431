// 1F1B (PipeDream-Flush: Narayanan et al., arXiv 2006.09503, section 3.2; as a building block: arXiv 2405.15362,
// gallery). Rank r of p runs min(m, p - r) forwards, then one backward and one forward in turn, then the backwards
// left: PyTorch's Schedule1F1B. A split W stands directly after its B.
#include "compiler/schedule/catalogue/Entries.h"

namespace pipec::schedule {

// Three slots a microbatch, F, B, W one each: forwards go down a rank a slot, backwards come up one in two. F falls on
// i, B on i + 1 and W on i + 2 modulo 3, so no two meet for any p.
static Block oneFOneBBlock(const Problem &problem) {
  Block block;
  block.interval = 3;
  const auto p = static_cast<int64_t>(problem.stages.size());
  for (int64_t i = 0; i < p; ++i) {
    block.forward.push_back(i);
    block.backwardInput.push_back(3 * p - 2 - 2 * i);
    if (problem.backward == BackwardMode::Split)
      block.backwardWeight.push_back(3 * p - 1 - 2 * i);
  }
  return block;
}

Entry oneFOneB() {
  return {.name = "1f1b",
          .aliases = {"Schedule1F1B"},
          .defaultBackward = BackwardMode::Fused,
          .allowsFused = true,
          .allowsSplit = true,
          .stagesPerRank = 1,
          .placement = "loop",
          .source = "PipeDream-Flush, arXiv 2006.09503, section 3.2",
          .bubble = "(p-1)(F+B+W) + 2c(p-1 + floor((m-1)(p-1)/p)), equal stages, m >= p",
          .memory = "min(m, p-r) microbatches on rank r",
          .block = oneFOneBBlock};
}

} // namespace pipec::schedule
