// Which passes of a problem go down the ranks and which go up, and how long rounds (Rounds.h) may be.
#pragma once

#include "compiler/schedule/construct/Rounds.h"
#include "compiler/schedule/model/Problem.h"

#include <algorithm>
#include <vector>

namespace pipec::schedule {

/// What does not depend on the round.
struct RoundShape {
  const Problem &problem;
  const bool fused;
  const int32_t count;
  std::vector<std::vector<int32_t>> stagesByRank;
  Time down = 0, up = 0;               // the longest pass and its transfer, by direction
  Time longestDown = 0, longestUp = 0; // without their transfers
  Time weight = 0;                     // the longest W
  Time work = 0;                       // of the busiest rank, a microbatch
  int32_t mostPasses = 1;              // of a rank and a microbatch in one direction
  std::vector<bool> forwardIsDown, backwardIsDown;

  explicit RoundShape(const Problem &problem);
  Time forward(int32_t s) const { return std::max<Time>(problem.stages[size_t(s)].forward, 1); }
  Time backward(int32_t s) const { return std::max<Time>(problem.backwardTime(problem.stages[size_t(s)]), 1); }

private:
  void note(bool isDown, Time length, Time handOver);
};

struct RoundSize {
  double each; // time of a microbatch
  Time beat;
  int32_t beats, microbatches;
};

/// Lengths of rounds to try, those first that take least time a microbatch. A length is left out if all rounds
/// together, or a microbatch that waits a whole round for each pass, would take too long.
std::vector<RoundSize> sizesOf(const RoundShape &shape, const RoundOptions &options);

} // namespace pipec::schedule
