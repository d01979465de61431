// One walk over words in ideal mode (links never queue, buffers never run out): longest paths, by a worklist of ranks.
// The arrays are allocated once, so that the span can walk the same words many times from different starts.
#pragma once

#include "compiler/schedule/evaluate/Evaluate.h"

#include <memory>

namespace pipec::schedule {

class Walk {
public:
  /// With origins, each end also records the rank at which its longest path begins.
  Walk(const Problem &problem, const Words &words, bool withOrigins);

  enum class Outcome { Done, Cycle, TooLong };
  /// Starts each rank at its time in `release` (0 to limits::kTime). `starts`, if given, receives the start of each
  /// letter; it must have a vector for each rank, as long as the rank's word.
  Outcome run(const std::vector<Time> &release, std::vector<std::vector<Time>> *starts = nullptr);

  /// The end of a rank's optimizer.
  Time end(int32_t rank) const { return ranks[rank].now; }
  /// The rank i at which the longest path to this rank's end begins: end(rank) = release[i] + the path's length.
  int32_t origin(int32_t rank) const { return ranks[rank].origin; }

private:
  struct StageState {
    Time forward, backward, weight, whole; // backwards without their R
    Time recompute;
    Time down, up;                         // hand-over time to the next stage, to the stage before
    int32_t forwards, backwards;           // done
    int32_t forwardWaiter, backwardWaiter; // the rank that waits for this stage's next F (backward); -1: none
    bool isFirst, isLast;                  // of its copy of the pipeline
    bool isSummed;                         // holds a shared weight that several ranks sum
    Time done;                             // end of its last letter so far, if it is summed
    int32_t doneOrigin;
  };
  struct RankState {
    Time now = 0;
    int32_t origin = 0;
    size_t position = 0;
  };

  template <bool kOrigins> bool runAll(std::vector<std::vector<Time>> *starts);
  template <bool kOrigins> bool advance(int32_t rank, Time *starts);
  void sumCopies();
  void sumShared();
  void update();

  const Problem &problem;
  const Words &words;
  bool withOrigins;
  /// Distance between stages in the arrays below: the microbatches plus a cache line, since powers of two share cache
  /// sets.
  size_t stride;
  std::vector<StageState> stages;
  std::vector<RankState> ranks;
  std::vector<Time> optimizer; // by rank: over all its stages
  /// A shared weight that several ranks sum: the time of the sum, and the weight's stages on each rank.
  struct Sum {
    Time takes = 0;
    std::vector<std::pair<int32_t, std::vector<int32_t>>> ranks;
    Time end = 0;
    int32_t origin = 0;
  };
  std::vector<Sum> sums;
  std::vector<std::vector<int32_t>> updates; // by rank, if there are sums: its stages in the order of their updates
  std::vector<std::vector<int32_t>> sumsOf;  // by stage, if there are sums: indices into `sums`
  // The time at which a stage's F (backward) of a microbatch has reached the next stage (the stage before); index:
  // stage × stride + microbatch.
  std::unique_ptr<Time[]> forwardArrival, backwardArrival;
  std::unique_ptr<int32_t[]> forwardOrigin, backwardOrigin;
  std::vector<int32_t> awake;
};

} // namespace pipec::schedule
