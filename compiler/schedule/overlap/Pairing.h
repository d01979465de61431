// Overlapped pairs for the search. Which passes may run together depends on the order. So words are first found without
// pairs, twice: with the passes as they are, and with each pass as much shorter as pairs would make it. Then
// neighbouring passes become pairs, and local search moves, splits and joins pairs.
#pragma once

#include "compiler/schedule/search/Search.h"

namespace pipec::schedule {

/// Whether a forward of one stage may overlap a whole backward of a stage of the same rank. The problem must have a
/// time for the pair, which is at least the longer of the two times and at most their sum.
bool mayOverlap(const Problem &problem, int32_t forward, int32_t backward);
/// Whether any two passes may overlap.
bool hasPairs(const Problem &problem);

/// The problem without overlapped pairs.
Problem apart(const Problem &problem);

/// The problem as it would be if every forward ran in a pair. A rank's passes are shorter by what pairs save. Both
/// inputs of a pair are due at its start and both results come at its end, so each hand-over is longer by the pair's
/// time less the pass's time. Words that are good for this problem are good to pair.
Problem asIfPaired(const Problem &problem);

/// The words with each BW outside of pairs split into B and W. The stage before gets its gradient sooner, and no more
/// memory is held.
Words halved(const Problem &problem, const Words &words);

/// The words with neighbouring forwards and backwards joined to pairs, unless a rank would wait longer for the later
/// input than the pair saves. A forward is joined with the backward after it or, with `backwardFirst`, with the one
/// before it. The result is within the capacities if the words were.
Words paired(const Problem &problem, const Capacities &capacities, const Words &words, bool backwardFirst);

/// The preferences of an idle rank.
struct PairPolicy {
  /// Among passes of several stages that could run. True: the forward of the highest stage, the backward of the lowest.
  /// False: the oldest microbatch.
  bool deepest = true;
  /// A pass that could run alone waits for another pass to pair with, if that pass comes within this many hundredths of
  /// the time that the pair saves.
  int32_t patience = 100;
  /// Microbatches in flight (F less B, over all stages of the rank), in hundredths, from which rank r starts no forward
  /// alone: base + slope (p - 1 - r). Both 0: only memory limits this number.
  int32_t base = 0, slope = 0;
};

/// List scheduling with pairs. None if the capacities do not hold what a policy begins. O(letters · (log ranks + stages
/// per rank)).
std::optional<Words> listPairs(const Problem &problem, const Capacities &capacities, const PairPolicy &policy);

/// Like `anneal`, with moves that join a forward and a backward, split a pair, and move a pair.
int64_t annealPairs(const Problem &problem, const Capacities &capacities, Words &words, const Annealing &annealing);

/// Like `solve`, with pairs if the problem has any. The result is never worse than without pairs, nor than the
/// catalogue's schedules with pairs.
std::optional<Solution> solvePaired(const Problem &problem, const SolveOptions &options = {});

} // namespace pipec::schedule
