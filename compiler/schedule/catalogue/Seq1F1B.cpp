// Seq1F1B (Sun et al., arXiv 2406.03488, section 3): 1F1B of slices. A sequence is cut into k slices that take equally
// long; F of a slice needs the keys and values of the slices before it, so forwards run in their order and backwards of
// a sequence in the opposite one: a queue that is first in, first out over sequences and last in, first out inside. The
// warm-up is k - 1 slices longer than 1F1B's, or the last rank could not begin its first backward. With several stages
// a rank it is interleaved 1F1B's, k - 1 slices longer too, in groups of p slices or, since the backwards of a sequence
// begin with its last slice, as many more as make whole sequences.
#include "compiler/schedule/catalogue/Entries.h"

namespace pipec::schedule {

static Words seq1f1bWords(const Problem &problem, const Parameters &) {
  if (problem.stages.size() != size_t(problem.ranks)) {
    const int64_t sequences = (int64_t(problem.ranks) + problem.slices - 1) / problem.slices;
    const Interleaving interleaving = interleavingOf(problem, {{"group", sequences * problem.slices}});
    return oneByOne(problem, interleaving, problem.slices - 1);
  }
  Words words(static_cast<size_t>(problem.ranks));
  for (int32_t rank = 0; rank < problem.ranks; ++rank)
    words[static_cast<size_t>(rank)] = oneByOne(problem, rank, int64_t(problem.ranks) - rank + problem.slices - 1);
  return words;
}

static std::string seq1f1bRefuses(const Problem &problem, const Parameters &) {
  if (problem.stages.size() == size_t(problem.ranks) || problem.slices > 1)
    return {};
  return "schedule 'seq1f1b' with several stages a rank takes slices, found whole microbatches; interleaved-1f1b is "
         "the "
         "same without";
}

Entry seq1f1b() {
  return {.name = "seq1f1b",
          .aliases = {},
          .defaultBackward = BackwardMode::Fused,
          .allowsFused = true,
          .allowsSplit = true,
          .stagesPerRank = 0,
          .placement = "loop",
          .source = "Seq1F1B, arXiv 2406.03488, section 3",
          .bubble = "(p-1)(F+B+W) + transfers, F, B, W of one of the k slices, equal stages; of v stages a rank, of "
                    "one chunk, mk >= p",
          .memory = "min(mk, p - r + k - 1) slices on rank r, of which k are a microbatch; of v stages a rank "
                    "min(mkv, (v-1)g + 2(p-1-r) + k) of a chunk, g = p rounded up to a multiple of k, mk one of g",
          .words = seq1f1bWords,
          .refuses = seq1f1bRefuses,
          .allowsSlices = true};
}

} // namespace pipec::schedule
