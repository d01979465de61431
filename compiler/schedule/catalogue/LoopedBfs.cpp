// Looped BFS, breadth-first pipeline parallelism (Lamy-Poirier, arXiv 2211.05953, section 4), in the order of PyTorch's
// ScheduleLoopedBFS: all microbatches through a rank's first chunk, then through its second, and so on; then all
// backwards, last chunk and last microbatch first. A split W stands directly after its B.
#include "compiler/schedule/catalogue/Entries.h"

namespace pipec::schedule {

static Words loopedBfsWords(const Problem &problem, const Parameters &) {
  const auto chunks = static_cast<int32_t>(problem.stages.size()) / problem.ranks;
  Words words(static_cast<size_t>(problem.ranks));
  for (int32_t rank = 0; rank < problem.ranks; ++rank) {
    Word &word = words[static_cast<size_t>(rank)];
    for (int32_t chunk = 0; chunk < chunks; ++chunk)
      word.insert(word.end(), static_cast<size_t>(problem.microbatches), {chunk * problem.ranks + rank, Letter::F});
    for (int32_t chunk = chunks; chunk-- > 0;)
      for (int32_t j = 0; j < problem.microbatches; ++j)
        appendBackward(problem, word, chunk * problem.ranks + rank);
  }
  return words;
}

Entry loopedBfs() {
  return {.name = "looped-bfs",
          .aliases = {"LoopedBFS", "ScheduleLoopedBFS"},
          .defaultBackward = BackwardMode::Fused,
          .allowsFused = true,
          .allowsSplit = true,
          .stagesPerRank = 0,
          .placement = "loop",
          .source = "arXiv 2211.05953, section 4; PyTorch's ScheduleLoopedBFS",
          .bubble = "(p-1)(F+B+W) + transfers, equal stages, F, B, W of one chunk, m >= p",
          .memory = "mv chunks on every rank",
          .words = loopedBfsWords,
          .lastMicrobatchFirst = true};
}

} // namespace pipec::schedule
