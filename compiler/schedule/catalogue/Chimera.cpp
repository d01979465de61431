// Chimera (Li and Hoefler, arXiv 2107.06925, section 3): two pipelines in opposite directions on the same ranks, each
// with its own copy of the weights and half of the microbatches, merged into one order. Each rank takes a backward and
// a forward in turn where both can run, the oldest microbatch first, and each direction keeps no more microbatches
// under way than 1F1B does: with p microbatches that is the paper's schedule, made by playing that rule with a backward
// twice as long as a forward and free links.
#include "compiler/schedule/catalogue/Entries.h"

#include <fmt/format.h>

namespace pipec::schedule {

static Words chimeraWords(const Problem &problem, const Parameters &) {
  Policy policy{.first = Policy::First::Alternate, .deepest = false, .mostWeights = 0};
  for (int32_t s = 0; s != 2 * problem.ranks; ++s)
    policy.mostOfStage.push_back(problem.ranks - s % problem.ranks);
  return played(problem, policy);
}

static std::string chimeraRefuses(const Problem &problem, const Parameters &) {
  if (problem.ranks % 2 == 0)
    return {};
  return fmt::format("schedule 'chimera' takes an even number of ranks, found {}", problem.ranks);
}

Entry chimera() {
  return {.name = "chimera",
          .aliases = {},
          .defaultBackward = BackwardMode::Fused,
          .allowsFused = true,
          .allowsSplit = true,
          .stagesPerRank = 1,
          .placement = "bidirectional",
          .source = "Chimera, arXiv 2107.06925, section 3",
          .bubble = "(p-2)(B+W), m = p, and no more from there on, equal stages, 2F = B + W, no transfers",
          .memory = "at most p + 1 microbatches; weights twice",
          .words = chimeraWords,
          .refuses = chimeraRefuses};
}

} // namespace pipec::schedule
