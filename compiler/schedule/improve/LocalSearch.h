// Improving words letter by letter, within each rank's capacity and never into a cycle.
#pragma once

#include "compiler/schedule/model/Capacity.h"
#include "compiler/schedule/model/Objective.h"

#include <stop_token>

namespace pipec::schedule {

/// Moves letters forward into gaps in which a rank idles, where they fit whole. So no letter starts later, and neither
/// makespan nor span gets longer. Takes up to `passes` evaluations and returns how many it took.
int64_t fillGaps(const Problem &problem, const Capacities &capacities, Words &words, int64_t passes);

/// The words with every W as late as the capacities allow: right before the F that needs the bytes that W frees, or at
/// the end. At most two W of each stage are put off at a time. fillGaps can then move W to where a rank waits.
Words deferWeights(const Problem &problem, const Capacities &capacities, const Words &words);

struct Annealing {
  Objective objective = Objective::Span;
  int64_t evaluations = 0;   // at most
  Time enough = 0;           // stops when the words take no more than this
  std::stop_token stop = {}; // stops when asked to
  uint64_t seed = 1;
};

/// Simulated annealing; each move moves one letter. Leaves the best words seen and returns the evaluations taken. The
/// same input gives the same words everywhere.
int64_t anneal(const Problem &problem, const Capacities &capacities, Words &words, const Annealing &annealing);

} // namespace pipec::schedule
