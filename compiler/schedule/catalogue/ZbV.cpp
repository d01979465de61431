// ZB-V (Qi et al., arXiv 2401.10241, section 6, figure 6), in the order of PyTorch's ScheduleZBVZeroBubble: two chunks
// a rank, there and back, so that a rank that waits for its first backward has forwards of the second chunk to run, and
// the last B is where the first F was. With F = B = W and no transfers no rank waits between its first and last pass.
// Fewer than 2p - 1 microbatches take the order of 2p - 1 without those that are not there.
#include "compiler/schedule/catalogue/Entries.h"

#include <algorithm>
#include <array>

namespace pipec::schedule {

namespace {

/// One rank's word while it grows: counts what each chunk has run, and leaves out microbatches that are not there.
class ZbVWord {
public:
  ZbVWord(const Problem &problem, int32_t rank)
      : stages{rank, 2 * problem.ranks - 1 - rank}, microbatches(problem.microbatches) {}

  void add(int32_t chunk, Letter letter) {
    if (done[size_t(chunk)][size_t(letter)]++ < microbatches)
      word.push_back({stages[size_t(chunk)], letter});
  }
  void addBackward(int32_t chunk) {
    add(chunk, Letter::B);
    add(chunk, Letter::W);
  }
  int32_t count(int32_t chunk, Letter letter) const { return done[size_t(chunk)][size_t(letter)]; }

  Word word;

private:
  std::array<int32_t, 2> stages;
  int32_t microbatches;
  std::array<std::array<int32_t, 3>, 2> done = {}; // by chunk and letter
};

Word zbVWord(const Problem &problem, int32_t rank) {
  using enum Letter;
  const int32_t p = problem.ranks, m = std::max(2 * p - 1, problem.microbatches);
  ZbVWord made(problem, rank);
  // Until the first microbatch comes back, forwards of the first chunk; then of both; then the first backwards.
  for (int32_t i = 0; i != 2 * (p - rank) - 1; ++i)
    made.add(0, F);
  for (int32_t i = 0; i != rank; ++i) {
    made.add(1, F);
    made.add(0, F);
  }
  for (int32_t i = 0; i != p - rank; ++i) {
    made.add(1, F);
    made.addBackward(1);
  }
  // One of everything in turn.
  while (made.count(1, F) < m) {
    if (made.count(0, F) < m)
      made.add(0, F);
    made.addBackward(0);
    made.add(1, F);
    made.addBackward(1);
  }
  // B for those who wait first, W where there is nothing else.
  for (int32_t i = 0; i != rank; ++i) {
    made.add(0, B);
    made.add(1, B);
  }
  for (int32_t i = 0; i != p - rank; ++i)
    made.addBackward(0);
  for (int32_t chunk : {1, 0})
    while (made.count(chunk, W) < m)
      made.add(chunk, W);
  return std::move(made.word);
}

Words zbVWords(const Problem &problem, const Parameters &) {
  Words words;
  for (int32_t rank = 0; rank < problem.ranks; ++rank)
    words.push_back(zbVWord(problem, rank));
  return words;
}

} // namespace

Entry zbV() {
  return {.name = "zb-v",
          .aliases = {"ZBVZeroBubble", "ScheduleZBVZeroBubble"},
          .defaultBackward = BackwardMode::Split,
          .allowsFused = false,
          .allowsSplit = true,
          .stagesPerRank = 2,
          .placement = "v",
          .source = "arXiv 2401.10241, section 6; PyTorch's ScheduleZBVZeroBubble",
          .bubble = "(p-1)F + transfers where F = B = W of one chunk, equal stages, m >= 2p-1; none from step to step",
          .memory = "min(2m, 2p) chunks on the rank that holds most, which is min(m, p) microbatches",
          .words = zbVWords};
}

} // namespace pipec::schedule
