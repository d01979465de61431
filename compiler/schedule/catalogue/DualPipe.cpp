// DualPipe and DualPipeV (DeepSeek-AI, DeepSeek-V3, arXiv 2412.19437, section 3.2.1; the eight steps are those of their
// code, and DualPipeV's of PyTorch's ScheduleDualPipeV). Two streams of microbatches meet on every rank, and in the
// main step each forward makes a pair with a backward of the other stream. The paper overlaps the two of a pair, which
// hides what tensor and expert parallelism communicate inside of them; here they do where the problem says what a pair
// takes, and run one after the other where it does not. DualPipe: two copies of the weights, two pipelines in opposite
// directions. DualPipeV: that folded in the middle, so the second half of one pipeline takes the place of the other
// direction, and weights stand once.
#include "compiler/schedule/catalogue/Entries.h"

#include <algorithm>
#include <deque>
#include <fmt/format.h>

namespace pipec::schedule {

namespace {

/// One rank's word while it grows. Stream 0 begins nearer to this rank than stream 1 does.
class DualWord {
public:
  DualWord(const Problem &problem, int32_t first, int32_t second) : problem(problem), stages{first, second} {}

  void forward(int stream) { word.push_back({stages[stream], Letter::F}); }
  void backward(int stream) { word.push_back({stages[stream], Letter::BW}); }
  void input(int stream) {
    word.push_back({stages[stream], Letter::B});
    weights.push_back(stages[stream]);
  }
  /// W of the oldest B that has had none.
  void weight() {
    word.push_back({weights.front(), Letter::W});
    weights.pop_front();
  }
  /// What their runtimes overlap.
  void pair(int forwards, int backwards) {
    forward(forwards);
    word.back().overlapped = problem.stages[size_t(stages[forwards])].overlapped.has_value();
    backward(backwards);
  }

  Word word;

private:
  const Problem &problem;
  int32_t stages[2];
  std::deque<int32_t> weights;
};

/// `near` and `far`: how many ranks there are on the way from where stream 0 begins, and on to where it turns or meets
/// the other one; `pairs`: how often the main step repeats.
Word steps(DualWord made, int32_t near, int32_t far, int32_t pairs) {
  for (int32_t i = 0; i != 2 * far; ++i) // 1
    made.forward(0);
  for (int32_t i = 0; i != near + 1; ++i) { // 2
    made.forward(0);
    made.forward(1);
  }
  for (int32_t i = 0; i != far; ++i) { // 3
    made.input(1);
    made.weight();
    made.forward(1);
  }
  for (int32_t i = 0; i != pairs; ++i) { // 4
    if (i == 0 && far == 0) {            // here nothing is gained by waiting for both
      made.forward(0);
      made.backward(1);
    } else {
      made.pair(0, 1);
    }
    made.pair(1, 0);
  }
  for (int32_t i = 0; i != far; ++i) { // 5
    made.backward(1);
    made.pair(1, 0);
  }
  const int32_t half = (near + 1) / 2;
  for (int32_t i = 0; i != near + 1; ++i) // 6: from half way on W waits
    for (const int stream : {1, 0})
      if (i > half || (i == half && (near % 2 == 1 || stream == 0)))
        made.input(stream);
      else
        made.backward(stream);
  for (int32_t i = 0; i != far; ++i) { // 7
    made.weight();
    made.input(0);
  }
  for (int32_t i = 0; i != near + 1; ++i) // 8
    made.weight();
  return std::move(made.word);
}

Words dualPipeWords(const Problem &problem, const Parameters &) {
  const int32_t p = problem.ranks, n = problem.microbatches;
  Words words;
  for (int32_t rank = 0; rank != p; ++rank) {
    const int32_t near = std::min(rank, p - 1 - rank);
    const int32_t down = rank, up = 2 * p - 1 - rank; // stages of the two directions
    words.push_back(steps(near == rank ? DualWord(problem, down, up) : DualWord(problem, up, down), near,
                          p / 2 - 1 - near, n - p + near + 1));
  }
  return words;
}

Words dualPipeVWords(const Problem &problem, const Parameters &) {
  const int32_t p = problem.ranks;
  Words words;
  for (int32_t rank = 0; rank != p; ++rank)
    words.push_back(
        steps(DualWord(problem, rank, 2 * p - 1 - rank), rank, p - 1 - rank, problem.microbatches - 2 * p + rank + 1));
  return words;
}

std::string dualPipeRefuses(const Problem &problem, const Parameters &) {
  if (problem.ranks % 2 != 0)
    return fmt::format("schedule 'dualpipe' takes an even number of ranks, found {}", problem.ranks);
  if (problem.microbatches < problem.ranks)
    return fmt::format(
        "schedule 'dualpipe' takes at least {} microbatches on {} ranks, half of them each way; found {}",
        2 * problem.ranks, problem.ranks, 2 * problem.microbatches);
  return {};
}

std::string dualPipeVRefuses(const Problem &problem, const Parameters &) {
  if (problem.microbatches >= 2 * problem.ranks)
    return {};
  return fmt::format("schedule 'dualpipe-v' takes at least {} microbatches on {} ranks, found {}", 2 * problem.ranks,
                     problem.ranks, problem.microbatches);
}

} // namespace

Entry dualPipe() {
  return {.name = "dualpipe",
          .aliases = {},
          .defaultBackward = BackwardMode::Split,
          .allowsFused = false,
          .allowsSplit = true,
          .stagesPerRank = 1,
          .placement = "bidirectional",
          .source = "DeepSeek-V3, arXiv 2412.19437, section 3.2.1; DeepSeek's DualPipe",
          .bubble = "(p/2-1)F where F = B = W, at most (p/2-1)(F+2B-W) where F = W, equal stages, no transfers; "
                    "at most (p/2-1)(X+B-2W) where F = W and a pair takes X (costs.overlapped)",
          .memory = "p + 1 microbatches on every rank; weights twice",
          .words = dualPipeWords,
          .refuses = dualPipeRefuses,
          .mixesBackwards = true,
          .overlaps = true};
}

Entry dualPipeV() {
  return {.name = "dualpipe-v",
          .aliases = {"DualPipeV", "ScheduleDualPipeV"},
          .defaultBackward = BackwardMode::Split,
          .allowsFused = false,
          .allowsSplit = true,
          .stagesPerRank = 2,
          .placement = "v",
          .source = "DeepSeek's DualPipeV; PyTorch's ScheduleDualPipeV",
          .bubble = "(p-1)F where F = B = W of one chunk, equal stages, no transfers; at most (p-1)(X+B-2W) where "
                    "F = W and a pair takes X (costs.overlapped)",
          .memory = "2p + 1 chunks on every rank",
          .words = dualPipeVWords,
          .refuses = dualPipeVRefuses,
          .mixesBackwards = true,
          .overlaps = true};
}

} // namespace pipec::schedule
