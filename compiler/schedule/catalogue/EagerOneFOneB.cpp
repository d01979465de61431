// Eager 1F1B (Zhuang et al., arXiv 2211.05322, section 4; as a building block: Controllable Memory, arXiv 2405.15362,
// gallery): 1F1B with every backward hop delayed by one interval, which buys room to hide transfers: rank r runs
// 2(p - r) - 1 forwards before its first backward. A split W stands directly after its B.
#include "compiler/schedule/catalogue/Entries.h"

namespace pipec::schedule {

// 1F1B's slots modulo 3, each hop of the backward three slots longer: B(i) - B(i + 1) = 5.
static Block eagerBlock(const Problem &problem) {
  Block block;
  block.interval = 3;
  const auto p = static_cast<int64_t>(problem.stages.size());
  for (int64_t i = 0; i < p; ++i) {
    block.forward.push_back(i);
    block.backwardInput.push_back(6 * p - 5 - 5 * i);
    if (problem.backward == BackwardMode::Split)
      block.backwardWeight.push_back(6 * p - 4 - 5 * i);
  }
  return block;
}

Entry eagerOneFOneB() {
  return {.name = "eager-1f1b",
          .aliases = {"Eager1F1B"},
          .defaultBackward = BackwardMode::Fused,
          .allowsFused = true,
          .allowsSplit = true,
          .stagesPerRank = 1,
          .placement = "loop",
          .source = "arXiv 2211.05322, section 4",
          .bubble = "(p-1)(F+B+W) + 2c(p-1) where 2c <= F+B+W, equal stages",
          .memory = "min(m, 2(p-r)-1) microbatches on rank r",
          .block = eagerBlock};
}

} // namespace pipec::schedule
