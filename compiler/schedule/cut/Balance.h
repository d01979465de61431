// Cuts by work alone: no order, no links, no memory. The least work of the busiest rank bounds what any cut can do.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <vector>

namespace pipec::schedule {

/// Layers of each stage, one or more, in order.
using Cut = std::vector<int64_t>;
using Work = __int128; // ps; sums over all ranks may pass 2^63

/// What a step takes of a rank, whatever its order, by layers. A layer's work goes with it to its rank.
struct CutWork {
  std::vector<Time> layers;          // each one's passes over all microbatches, and its update
  Time perStage = 0;                 // what a stage takes beside its layers
  std::vector<int32_t> rankOf;       // stage → rank, of all copies
  int32_t copies = 1;                // pipelines side by side, cut alike
  std::vector<int64_t> percent = {}; // of its work, what it takes each rank; empty: as much as it says

  size_t stages() const { return rankOf.size() / size_t(copies); }
};

/// The busiest rank's work, or what that takes it.
Work busiest(const CutWork &work, const Cut &cut);

/// A stage ends where its share of all work is done, as near as layers allow.
Cut sharedCut(const CutWork &work);

struct Balance {
  Work least = 0; // no cut gives its busiest rank less
  Cut cut;        // a cut that does, where one is known, else one by shares
};
/// Where ranks take as much as their work says: exact for one stage a rank. For two in a loop or in a V, if layers and
/// ranks are not too many: the least where one of a rank's two stages may be empty. Else the mean over the ranks, or
/// the heaviest layer. There must be a layer for each stage.
Balance balance(const CutWork &work);

/// Some of the cuts whose slowest stage is fastest: with as many layers as that allows in the first stages, and in the
/// last; and, if layers and stages are not too many, such that the slowest of the first n stages is also the fastest
/// that these could have with their layers, for every n, counted from either end.
std::vector<Cut> slowestFastest(const CutWork &work);

/// How many cuts there are; `most` + 1 if there are more than `most`.
int64_t countCuts(int64_t layers, int64_t stages, int64_t most);

} // namespace pipec::schedule
