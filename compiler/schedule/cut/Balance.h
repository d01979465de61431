// Cuts by work alone, without order, links or memory. The least possible work of the busiest rank is a lower bound for
// every cut.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <vector>

namespace pipec::schedule {

/// The number of layers of each stage, at least one, in order.
using Cut = std::vector<int64_t>;
using Work = __int128; // picoseconds; sums over all ranks may exceed 2^63

/// The work of a step, by layer, whatever the order. A layer's work belongs to the rank of its stage.
struct CutWork {
  std::vector<Time> layers;          // by layer: its passes over all microbatches, and its update
  Time perStage = 0;                 // work of a stage besides its layers
  std::vector<int32_t> rankOf;       // stage → rank, of all copies
  int32_t copies = 1;                // pipelines side by side; all have the same cut
  std::vector<int64_t> percent = {}; // by rank: its time in percent of its work; empty: 100

  size_t stages() const { return rankOf.size() / size_t(copies); }
};

/// The work of the busiest rank, scaled by `percent`.
Work busiest(const CutWork &work, const Cut &cut);

/// Ends each stage as near as possible to its proportional part of all work.
Cut sharedCut(const CutWork &work);

struct Balance {
  Work least = 0; // lower bound of the busiest rank's work over all cuts
  Cut cut;        // a cut that reaches `least`, if one is known; else a proportional cut
};
/// The least work of the busiest rank. Needs ranks that take as long as their work says. Exact for one stage per rank.
/// For two stages per rank, in a loop or in a V, and if layers and ranks are not too many: the least if one of a rank's
/// two stages may be empty. Otherwise the mean over the ranks, or the heaviest layer. There must be a layer for each
/// stage.
Balance balance(const CutWork &work);

/// Some of the cuts that make the slowest stage fastest: with as many layers as that allows in the first stages, and in
/// the last. If layers and stages are not too many, also cuts in which, for every n, the slowest of the first n stages
/// is as fast as these stages can be with their layers; counted from either end.
std::vector<Cut> slowestFastest(const CutWork &work);

/// How many cuts there are; `most` + 1 if there are more than `most`.
int64_t countCuts(int64_t layers, int64_t stages, int64_t most);

} // namespace pipec::schedule
