// Interleaved zero bubble, in the order of PyTorch's ScheduleInterleavedZeroBubble (ZB1P of Qi et al., arXiv
// 2401.10241, over several chunks): interleaved 1F1B with half the extra warm-up, rank r running (v - 1)g + (p - 1 - r)
// forwards before its first pair, and with the backward split: the k-th W of rank r follows its (k + r)-th B, so that
// the later a rank gets its first B, the more W it has left for the end. PyTorch has no ragged groups; the last one may
// be one here.
#include "compiler/schedule/catalogue/Entries.h"

#include <algorithm>

namespace pipec::schedule {

static Words interleavedZbWords(const Problem &problem, const Parameters &parameters) {
  const auto [chunks, firstGroup, order] = interleavingOf(problem, parameters);
  Words words(static_cast<size_t>(problem.ranks));
  for (int32_t rank = 0; rank < problem.ranks; ++rank) {
    Word &word = words[static_cast<size_t>(rank)];
    const auto stageOf = [&](int32_t chunk) { return chunk * problem.ranks + rank; };
    const size_t warmUp =
        std::min(static_cast<size_t>((chunks - 1) * firstGroup + problem.ranks - 1 - rank), order.size());
    for (size_t k = 0; k != warmUp; ++k)
      word.push_back({stageOf(order[k]), Letter::F});
    const auto behind = static_cast<size_t>(rank);
    for (size_t k = 0; k != order.size() + behind; ++k) {
      if (k < order.size()) {
        if (warmUp + k < order.size())
          word.push_back({stageOf(order[warmUp + k]), Letter::F});
        word.push_back({stageOf(chunks - 1 - order[k]), Letter::B});
      }
      if (k >= behind)
        word.push_back({stageOf(chunks - 1 - order[k - behind]), Letter::W});
    }
  }
  return words;
}

static std::string interleavedZbRefuses(const Problem &problem, const Parameters &parameters) {
  return refusesGroup("interleaved-zb", problem, parameters);
}

Entry interleavedZb() {
  return {.name = "interleaved-zb",
          .aliases = {"InterleavedZeroBubble", "ScheduleInterleavedZeroBubble"},
          .defaultBackward = BackwardMode::Split,
          .allowsFused = false,
          .allowsSplit = true,
          .stagesPerRank = 0,
          .placement = "loop",
          .source = "PyTorch's ScheduleInterleavedZeroBubble; ZB1P of arXiv 2401.10241, section 4",
          .bubble = "(p-1)F + transfers where F = B = W of one chunk, equal stages, groups of p",
          .memory = "activations of min(mv, (v-1)g + p-r) chunks on rank r, weight contexts of min(mv, (v-1)g + p)",
          .parameters = {{"group", 1, "microbatches in a group (default: m / max(1, m / p), both rounded down)"}},
          .words = interleavedZbWords,
          .refuses = interleavedZbRefuses};
}

} // namespace pipec::schedule
