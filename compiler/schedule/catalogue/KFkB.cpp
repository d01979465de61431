// kFkB (Ada-Grouper, arXiv 2303.01675, section 4): microbatches in groups of k; rank r of p runs k(p - r) forwards,
// then k backwards and k forwards in turn, then the backwards left. k = 1 is 1F1B. The last group may be ragged. A
// split W stands directly after its B.
#include "compiler/schedule/catalogue/Entries.h"

#include <algorithm>

namespace pipec::schedule {

static Words kFkBWords(const Problem &problem, const Parameters &parameters) {
  const int64_t k = numberOf(parameters, "k", 1);
  const int64_t m = problem.microbatches;
  Words words(static_cast<size_t>(problem.ranks));
  for (int32_t rank = 0; rank < problem.ranks; ++rank) {
    Word &word = words[static_cast<size_t>(rank)];
    int64_t forwards = 0, backwards = 0;
    const auto forward = [&](int64_t until) {
      for (; forwards < std::min(until, m); ++forwards)
        word.push_back({rank, Letter::F});
    };
    forward(k * (problem.ranks - rank));
    while (backwards < m) {
      for (const int64_t until = std::min(backwards + k, m); backwards < until; ++backwards)
        appendBackward(problem, word, rank);
      forward(forwards + k);
    }
  }
  return words;
}

Entry kFkB() {
  return {.name = "kfkb",
          .aliases = {},
          .defaultBackward = BackwardMode::Fused,
          .allowsFused = true,
          .allowsSplit = true,
          .stagesPerRank = 1,
          .placement = "loop",
          .source = "Ada-Grouper, arXiv 2303.01675, section 4",
          .bubble = "(p-1)(F+B+W) + transfers; none repeats where (k-1)(F+B+W) >= 2c and c <= F",
          .memory = "min(m, k(p-r)) microbatches on rank r",
          .parameters = {{"k", 1, "microbatches in a group (default 1)"}},
          .words = kFkBWords};
}

} // namespace pipec::schedule
