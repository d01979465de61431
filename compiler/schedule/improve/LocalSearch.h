// Improving words letter by letter, within each rank's capacity and never into a cycle.
#pragma once

#include "compiler/schedule/model/Capacity.h"
#include "compiler/schedule/model/Objective.h"

namespace pipec::schedule {

/// Moves letters forward into gaps in which a rank idles, where they fit whole; so no letter starts later, and both
/// times get no longer. Up to `passes` evaluations. Returns how many it took.
int64_t fillGaps(const Problem &problem, const Capacities &capacities, Words &words, int64_t passes);

/// The words with every W as late as the capacities allow: right before the F that needs its bytes, or at the end; but
/// no more of them put off at a time than two for each stage. For fillGaps to bring them back to where a rank waits.
Words deferWeights(const Problem &problem, const Capacities &capacities, const Words &words);

struct Annealing {
  Objective objective = Objective::Span;
  int64_t evaluations = 0; // at most
  Time enough = 0;         // stops at this time
  uint64_t seed = 1;
};

/// Simulated annealing: a letter a move. Leaves the best words seen and returns the evaluations taken. The same input
/// gives the same words everywhere.
int64_t anneal(const Problem &problem, const Capacities &capacities, Words &words, const Annealing &annealing);

} // namespace pipec::schedule
