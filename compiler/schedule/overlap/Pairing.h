// Overlapped pairs for the search. Which passes may run together depends on the order, so words are found as if none
// did, twice: as the passes are, and with each as much shorter as pairs would make it. Then neighbours become pairs,
// and local search moves, parts and joins them.
#pragma once

#include "compiler/schedule/search/Search.h"

namespace pipec::schedule {

/// Whether a forward of one stage may run with a whole backward of another, or the same, of its rank: the problem says
/// what they take together, and that is no less than the longer one and no more than one after the other.
bool mayOverlap(const Problem &problem, int32_t forward, int32_t backward);
/// Whether any may.
bool hasPairs(const Problem &problem);

/// The problem with passes that never run together.
Problem apart(const Problem &problem);

/// The problem as it would be if every forward ran in a pair. A rank's passes are shorter by what pairs save. The
/// inputs of both passes of a pair are due at its start and their results come at its end, so hand-overs are longer by
/// what a pass lasts less than its pair. Words that are good for this problem are good to pair.
Problem asIfPaired(const Problem &problem);

/// The words with whole backwards that are in no pair split into B and W: the stage before gets its gradient sooner,
/// and no more memory is held.
Words halved(const Problem &problem, const Words &words);

/// The words with neighbouring forwards and backwards joined to pairs, unless a rank would wait longer for the later
/// input than the pair saves. A forward is joined with the backward behind it or, with `backwardFirst`, with the one
/// before it. Within the capacities if the words were.
Words paired(const Problem &problem, const Capacities &capacities, const Words &words, bool backwardFirst);

/// What a rank prefers when it is free.
struct PairPolicy {
  /// Among passes of several stages that could run: the forward of the highest stage, the backward of the lowest; else
  /// the oldest microbatch.
  bool deepest = true;
  /// A pass that could run alone waits for another to pair with, if that comes within this many hundredths of what the
  /// pair saves.
  int32_t patience = 100;
  /// Microbatches in flight (F less B, over all its stages) beyond which rank r starts no forward alone: base + slope
  /// (p - 1 - r), in hundredths; 0 for both: no limit but memory.
  int32_t base = 0, slope = 0;
};

/// List scheduling with pairs. None where the capacity does not hold what a policy begins. O(letters · (log ranks +
/// stages a rank)).
std::optional<Words> listPairs(const Problem &problem, const Capacities &capacities, const PairPolicy &policy);

/// As `anneal`, with moves that join a forward and a backward, part them, and move a pair.
int64_t annealPairs(const Problem &problem, const Capacities &capacities, Words &words, const Annealing &annealing);

/// As `solve`, with pairs where the problem has any; never worse than without them, nor than what the catalogue pairs.
std::optional<Solution> solvePaired(const Problem &problem, const SolveOptions &options = {});

} // namespace pipec::schedule
