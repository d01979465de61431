// Improves words letter by letter, within each rank's capacity and without deadlock.
#pragma once

#include "compiler/schedule/model/Capacity.h"
#include "compiler/schedule/model/Objective.h"

#include <stop_token>

namespace pipec::schedule {

/// Moves letters forward into idle gaps of their rank where they fit completely. So no letter starts later, and neither
/// makespan nor span grows. Uses up to `passes` evaluations and returns how many it used.
int64_t fillGaps(const Problem &problem, const Capacities &capacities, Words &words, int64_t passes);

/// The words with every W as late as the capacities allow: right before the F that needs the bytes that the W frees, or
/// at the end. At most two W of each stage are pending at a time. fillGaps can then move each W to where a rank waits.
Words deferWeights(const Problem &problem, const Capacities &capacities, const Words &words);

struct Annealing {
  Objective objective = Objective::Span;
  int64_t evaluations = 0;   // at most
  Time enough = 0;           // stops when the words take at most this time
  std::stop_token stop = {}; // stops on request
  uint64_t seed = 1;
};

/// Simulated annealing; each move moves one letter. Leaves the best words found in `words` and returns the evaluations
/// used. The same input gives the same words on every machine.
int64_t anneal(const Problem &problem, const Capacities &capacities, Words &words, const Annealing &annealing);

} // namespace pipec::schedule
