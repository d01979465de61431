// Lower bounds that no order of the same work can beat, for the problem's placement, backward mode and memory limit,
// with links that never queue. Each argument is a function with its proof beside it. They hold for any placement,
// costs, latencies and limit. Where no order fits into the memory limit, the numbers mean nothing.
#pragma once

#include "compiler/schedule/model/LeastProblem.h"
#include "compiler/schedule/model/Objective.h"
#include "runtime/plan/LeastTime.h"

#include <cstdint>

namespace pipec::schedule {

/// Same values as plan::Bound.
enum class Argument : uint8_t {
  None = 0,
  CriticalPath = 1,
  Work = 2,
  WarmUp = 3,
  MemoryChain = 4,
  Area = 5,
  LastDevice = 6,
  Exact = 7,
  Exchange = 8 // of gradients between replicas (exchange/BoundsExchange.h)
};

struct Bounded {
  Time makespan = 0;
  Time span = 0;
  Argument makespanArgument = Argument::None;
  Argument spanArgument = Argument::None;
};

/// Of orders with the times of this problem: for a search among them. What is said of plans comes of leastTimes().
/// Needs check(problem) to have passed. O(stages · log).
Bounded lowerBounds(const Problem &problem);

/// What no plan takes less than, and why.
struct LeastTimes {
  plan::LeastTime makespan, span;
  Argument makespanArgument = Argument::None;
  Argument spanArgument = Argument::None;

  plan::LeastTime by(Objective objective) const { return objective == Objective::Span ? span : makespan; }
};

/// The bounds of a problem that no plan is below, so no plan takes less. Needs check(problem.problem()) to have passed.
LeastTimes leastTimes(const LeastProblem &problem);
/// The least of all cases; nothing is proven of none.
LeastTimes leastOf(const LeastTimes &one, const LeastTimes &other);
LeastTimes leastTimes(const LeastCases &cases);
/// The best of all ways.
LeastTimes bestOf(const LeastTimes &one, const LeastTimes &other);
LeastTimes leastTimes(const LeastWays &ways);

} // namespace pipec::schedule
