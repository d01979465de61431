// One walk over words in ideal mode (links never queue, buffers never run out): longest paths by a worklist of ranks.
// The arrays are made once, so that the span can walk the same words many times from other starts.
#pragma once

#include "compiler/schedule/evaluate/Evaluate.h"

#include <memory>

namespace pipec::schedule {

class Walk {
public:
  /// With origins, each end also carries the rank at whose start its longest path begins.
  Walk(const Problem &problem, const Words &words, bool withOrigins);

  enum class Outcome { Done, Cycle, TooLong };
  /// Lets each rank start at its time of `release` (0 to limits::kTime). With `starts`, a vector as long as its word
  /// for each rank, it fills in when each letter starts.
  Outcome run(const std::vector<Time> &release, std::vector<std::vector<Time>> *starts = nullptr);

  /// When a rank's optimizer ends.
  Time end(int32_t rank) const { return ranks[rank].now; }
  /// The i of the longest path: end(rank) = release[i] + what the path takes from i's start.
  int32_t origin(int32_t rank) const { return ranks[rank].origin; }

private:
  struct StageState {
    Time forward, backward, weight, whole; // the backwards without what comes before the gradient:
    Time recompute;
    Time down, up;                         // hand-over to the next stage, to the one before
    int32_t forwards, backwards;           // done
    int32_t forwardWaiter, backwardWaiter; // the rank that waits for the stage's next one; -1: none
    bool isFirst, isLast;                  // of its copy of the pipeline
    bool isSummed;                         // it holds a weight that ranks sum
    Time done;                             // when its last letter so far ends, where it is
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
  size_t stride; // from stage to stage in the arrays below: microbatches plus a cache line, since powers of two share
                 // cache sets
  std::vector<StageState> stages;
  std::vector<RankState> ranks;
  std::vector<Time> optimizer; // a rank each: of all its stages
  /// A shared weight that several ranks sum: what that takes, and its stages on each of them.
  struct Sum {
    Time takes = 0;
    std::vector<std::pair<int32_t, std::vector<int32_t>>> ranks;
    Time end = 0;
    int32_t origin = 0;
  };
  std::vector<Sum> sums;
  std::vector<std::vector<int32_t>> updates; // where there are sums, by rank: its stages, in the order of their updates
  std::vector<std::vector<int32_t>> sumsOf;  // where there are sums, by stage: indices into `sums`
  // When a stage's F (B) of a microbatch has reached the next stage (the one before); stage × microbatches +
  // microbatch.
  std::unique_ptr<Time[]> forwardArrival, backwardArrival;
  std::unique_ptr<int32_t[]> forwardOrigin, backwardOrigin;
  std::vector<int32_t> awake;
};

} // namespace pipec::schedule
