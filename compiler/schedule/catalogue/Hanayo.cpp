// Hanayo (Liu et al., arXiv 2308.15762, section 3): wave-like pipelines. Stages go there and back over the ranks once a
// wave, so that a rank holds two of each, and a microbatch hands over to itself where a wave turns. Each rank takes
// whatever can run, backwards before forwards, the oldest microbatch first, as long as no more than p microbatches are
// under way: the paper's action lists, made by playing that rule with a backward twice as long as a forward and free
// links.
#include "compiler/schedule/catalogue/Entries.h"

#include <fmt/format.h>

namespace pipec::schedule {

static Words hanayoWords(const Problem &problem, const Parameters &) {
  return played(
      problem,
      {.deepest = false, .mostOfStage = std::vector<int32_t>(problem.stages.size(), problem.ranks), .mostWeights = 0});
}

static std::string hanayoRefuses(const Problem &problem, const Parameters &) {
  const size_t perRank = problem.stages.size() / size_t(problem.ranks);
  if (perRank % 2 == 0)
    return {};
  return fmt::format("schedule 'hanayo' has two stages on each rank for each wave, found {}: say stages_per_rank: {}",
                     perRank, perRank + 1);
}

Entry hanayo() {
  return {.name = "hanayo",
          .aliases = {},
          .defaultBackward = BackwardMode::Fused,
          .allowsFused = true,
          .allowsSplit = true,
          .stagesPerRank = 0,
          .placement = "v",
          .source = "Hanayo, arXiv 2308.15762, section 3",
          .bubble = "about (2p-2)/(3pw+p-1) of the makespan, w waves, 2F = B + W, m = p, no transfers",
          .memory = "at most p microbatches, 2wp chunks, on every rank",
          .words = hanayoWords,
          .refuses = hanayoRefuses,
          .usualStagesPerRank = 2};
}

} // namespace pipec::schedule
