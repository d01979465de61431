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

/// The problem as it looks to a rank that runs every forward with a backward: the passes of a rank are shorter by what
/// pairs save, and since what either of a pair takes and yields is due at its ends, hops are longer by the rest of it.
/// Words that go well with it go well with pairs.
Problem asIfPaired(const Problem &problem);

/// Whole backwards that are in no pair, as two: what the stage before waits for is there sooner, and no more is held.
Words halved(const Problem &problem, const Words &words);

/// The words with neighbouring forwards and backwards run together, as long as ranks do not wait longer for the later
/// of two inputs than the pair saves; a forward with the backward behind it or, with `backwardFirst`, before it. Within
/// the capacities if the words were.
Words paired(const Problem &problem, const Capacities &capacities, const Words &words, bool backwardFirst);

/// What a rank prefers when it is free.
struct PairPolicy {
  /// Of what is there on several of its stages: forwards of the highest, backwards of the lowest; else the oldest
  /// microbatch.
  bool deepest = true;
  /// One alone waits for the other of a pair if that comes within so many hundredths of what the pair saves.
  int32_t patience = 100;
  /// Microbatches in flight (F less B, over all its stages) beyond which rank r starts none alone: base + slope
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
