// ZB-H1 and ZB-H2 (Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241, sections 3.1 and 3.2; as building
// blocks: Controllable Memory, arXiv 2405.15362, gallery): 1F1B and eager 1F1B with W put off until all ranks' W of a
// microbatch stand in one line behind the last rank's, where they fill what would be bubbles.
#include "compiler/schedule/catalogue/Entries.h"

namespace pipec::schedule {

namespace {

/// Three slots a microbatch; each hop of the backward two slots, or five in H2. F falls on i, B on i + 1 and W on i + 2
/// modulo 3.
Block zbH(const Problem &problem, int64_t hop) {
  Block block;
  block.interval = 3;
  const auto p = static_cast<int64_t>(problem.stages.size());
  for (int64_t i = 0; i < p; ++i) {
    block.forward.push_back(i);
    block.backwardInput.push_back(p + hop * (p - 1 - i));
    block.backwardWeight.push_back(p + hop * (p - 1) + 1 + i);
  }
  return block;
}

} // namespace

Entry zbH1() {
  return {.name = "zb-h1",
          .aliases = {},
          .defaultBackward = BackwardMode::Split,
          .allowsFused = false,
          .allowsSplit = true,
          .stagesPerRank = 1,
          .placement = "loop",
          .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 3.1",
          .bubble = "(p-1)(F+B-W) + transfers, equal stages, F >= W, B >= W, m >= p",
          .memory = "min(m, p) microbatches on every rank",
          .block = [](const Problem &problem) { return zbH(problem, 2); }};
}

Entry zbH2() {
  return {.name = "zb-h2",
          .aliases = {},
          .defaultBackward = BackwardMode::Split,
          .allowsFused = false,
          .allowsSplit = true,
          .stagesPerRank = 1,
          .placement = "loop",
          .source = "Zero Bubble Pipeline Parallelism, arXiv 2401.10241, section 3.2",
          .bubble = "(p-1)(F+B-2W) + transfers from step to step, equal stages, F >= W, F + B >= 2W, m >= 2p-1",
          .memory = "min(m, 2p-1) microbatches on every rank",
          .block = [](const Problem &problem) { return zbH(problem, 5); }};
}

} // namespace pipec::schedule
