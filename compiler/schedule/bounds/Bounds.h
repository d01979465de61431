// Lower bounds on makespan and span. No order of the same work can beat these bounds, given the problem's placement,
// backward mode and memory limit, and links that never queue. Each argument is a function with its proof beside it. The
// bounds hold for any placement, costs, latencies and limit. If no order fits into the memory limit, the bounds mean
// nothing.
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

/// Bounds for orders with exactly the times of this problem, for use by a search among these orders. Bounds of plans
/// come from leastTimes(). Needs check(problem) to have passed. O(stages · log).
Bounded lowerBounds(const Problem &problem);

/// Proven lower bounds of a plan's makespan and span, each with its argument.
struct LeastTimes {
  plan::LeastTime makespan, span;
  Argument makespanArgument = Argument::None;
  Argument spanArgument = Argument::None;

  plan::LeastTime by(Objective objective) const { return objective == Objective::Span ? span : makespan; }
};

/// The bounds of a problem that has no more time or memory anywhere than any plan, so they hold for every plan. Needs
/// check(problem.problem()) to have passed.
LeastTimes leastTimes(const LeastProblem &problem);
/// The smallest bound of all cases. Without any case nothing is proven.
LeastTimes leastOf(const LeastTimes &one, const LeastTimes &other);
LeastTimes leastTimes(const LeastCases &cases);
/// The largest bound of all ways.
LeastTimes bestOf(const LeastTimes &one, const LeastTimes &other);
LeastTimes leastTimes(const LeastWays &ways);

} // namespace pipec::schedule
