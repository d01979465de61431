// What proofs are made of. A Problem has the times that orders are made of: where ranks have shards, or replicas update
// beside passes, a plan may take less than its times add up to, and hold less than its sizes do. No bound of such a
// problem is one of a plan. A LeastProblem has times and sizes that no plan is below.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <utility>
#include <vector>

namespace pipec::schedule {

class LeastProblem {
public:
  /// The caller knows why no plan takes or holds less than this problem says; the reason stands beside the call.
  static LeastProblem proven(Problem least) { return LeastProblem(std::move(least)); }

  const Problem &problem() const { return least; }

private:
  explicit LeastProblem(Problem least) : least(std::move(least)) {}
  Problem least;
};

/// Each plan is a plan of at least one of these problems. So the least of the problems' bounds holds for every plan.
using LeastCases = std::vector<LeastProblem>;
/// Several lists of cases. Each list bounds every plan, so the largest of the lists' bounds holds for every plan.
using LeastWays = std::vector<LeastCases>;

} // namespace pipec::schedule
