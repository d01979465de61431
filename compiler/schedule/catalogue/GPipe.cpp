// GPipe (Huang et al., arXiv 1811.06965, section 2.3): all forwards, then all backwards, both in microbatch order as in
// PyTorch's ScheduleGPipe. As a building block its lifespan grows with the microbatches. A split W stands directly
// after its B. Of microbatches that are cut into slices it is TeraPipe's order (Li et al., arXiv 2102.07988).
#include "compiler/schedule/catalogue/Entries.h"

namespace pipec::schedule {

// 1F1B's block with the backwards m intervals later: the same slots modulo 3, and B(i) = 3m + 3p - 2 - 2i is behind the
// last forward, i + 3(m-1), on every rank.
static Block gPipeBlock(const Problem &problem) {
  Block block;
  block.interval = 3;
  const auto p = static_cast<int64_t>(problem.stages.size());
  const int64_t m = problem.microbatches;
  for (int64_t i = 0; i < p; ++i) {
    block.forward.push_back(i);
    block.backwardInput.push_back(3 * m + 3 * p - 2 - 2 * i);
    if (problem.backward == BackwardMode::Split)
      block.backwardWeight.push_back(3 * m + 3 * p - 1 - 2 * i);
  }
  return block;
}

Entry gPipe() {
  return {.name = "gpipe",
          .aliases = {"ScheduleGPipe"},
          .defaultBackward = BackwardMode::Fused,
          .allowsFused = true,
          .allowsSplit = true,
          .stagesPerRank = 1,
          .placement = "loop",
          .source = "GPipe, arXiv 1811.06965, section 2.3",
          .bubble = "(p-1)(F+B+W) + 2c(p-1), equal stages",
          .memory = "m microbatches on every rank",
          .block = gPipeBlock,
          .allowsSlices = true};
}

} // namespace pipec::schedule
