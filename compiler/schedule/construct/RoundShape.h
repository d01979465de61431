// The direction of each pass (down or up the ranks), and the lengths of rounds (Rounds.h) to try.
#pragma once

#include "compiler/schedule/construct/Rounds.h"
#include "compiler/schedule/model/Problem.h"

#include <algorithm>
#include <vector>

namespace pipec::schedule {

/// The properties of a problem that do not depend on the round.
struct RoundShape {
  const Problem &problem;
  const bool fused;
  const int32_t count;
  std::vector<std::vector<int32_t>> stagesByRank;
  Time down = 0, up = 0;               // longest pass with its transfer, by direction, in picoseconds
  Time longestDown = 0, longestUp = 0; // longest pass without its transfer
  Time weight = 0;                     // the longest W
  Time work = 0;                       // of the busiest rank, per microbatch, in picoseconds
  int32_t mostPasses = 1;              // passes of one microbatch on one rank in one direction, at most
  std::vector<bool> forwardIsDown, backwardIsDown;

  explicit RoundShape(const Problem &problem);
  Time forward(int32_t s) const { return std::max<Time>(problem.stages[size_t(s)].forward, 1); }
  Time backward(int32_t s) const { return std::max<Time>(problem.backwardTime(problem.stages[size_t(s)]), 1); }

private:
  void note(bool isDown, Time length, Time handOver);
};

struct RoundSize {
  double each; // picoseconds per microbatch
  Time beat;
  int32_t beats, microbatches;
};

/// Round lengths to try, those with the least time per microbatch first. A length is left out if its times could exceed
/// limits::kTime: all rounds together, or a microbatch that waits a whole round for each pass.
std::vector<RoundSize> sizesOf(const RoundShape &shape, const RoundOptions &options);

} // namespace pipec::schedule
