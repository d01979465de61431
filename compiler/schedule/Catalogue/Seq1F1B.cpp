// Seq1F1B (Sun et al., arXiv 2406.03488, section 3): 1F1B of slices. A sequence is cut into k slices that take equally
// long; F of a slice needs the keys and values of the slices before it, so forwards run in their order and backwards of
// a sequence in the opposite one: a queue that is first in, first out over sequences and last in, first out inside. The
// warm-up is k - 1 slices longer than 1F1B's, or the last rank could not begin its first backward.
#include "compiler/schedule/Catalogue/Entries.h"

namespace pipec::schedule {

static Words seq1f1bWords(const Problem &problem, const Parameters &) {
  Words words(static_cast<size_t>(problem.ranks));
  for (int32_t rank = 0; rank < problem.ranks; ++rank)
    words[static_cast<size_t>(rank)] = oneByOne(problem, rank, int64_t(problem.ranks) - rank + problem.slices - 1);
  return words;
}

Entry seq1f1b() {
  return {.name = "seq1f1b",
          .aliases = {},
          .defaultBackward = BackwardMode::Fused,
          .allowsFused = true,
          .allowsSplit = true,
          .stagesPerRank = 1,
          .placement = "loop",
          .source = "Seq1F1B, arXiv 2406.03488, section 3",
          .bubble = "(p-1)(F+B+W) + transfers, F, B, W of one of the k slices, equal stages",
          .memory = "min(mk, p - r + k - 1) slices on rank r, of which k are a microbatch",
          .words = seq1f1bWords,
          .allowsSlices = true};
}

} // namespace pipec::schedule
