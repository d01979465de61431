// Problems that prove bounds of plans. A Problem has the times that orders are judged by. Where ranks have shards, or
// replicas update weights beside passes, a plan may take less time and less memory than a Problem says; then a bound of
// the Problem is not a bound of the plan. A LeastProblem has times and sizes that every plan reaches or exceeds.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <utility>
#include <vector>

namespace pipec::schedule {

class LeastProblem {
public:
  /// The caller must know why no plan takes less time or memory than this problem; a comment beside the call gives the
  /// reason.
  static LeastProblem proven(Problem least) { return LeastProblem(std::move(least)); }

  const Problem &problem() const { return least; }

private:
  explicit LeastProblem(Problem least) : least(std::move(least)) {}
  Problem least;
};

/// Every plan is a plan of at least one of these problems. So the least of the problems' bounds holds for every plan.
using LeastCases = std::vector<LeastProblem>;
/// Several lists of cases. Each list bounds every plan, so the largest of the lists' bounds holds for every plan.
using LeastWays = std::vector<LeastCases>;

} // namespace pipec::schedule
