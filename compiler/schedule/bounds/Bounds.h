// Lower bounds that no order of the same work can beat, for the problem's placement, backward mode and memory limit,
// with links that never queue. Each argument is a function with its proof beside it. They hold for any placement,
// costs, latencies and limit. Where no order fits into the memory limit, the numbers mean nothing.
#pragma once

#include "compiler/schedule/model/Problem.h"

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

/// Needs check(problem) to have passed. O(stages · log).
Bounded lowerBounds(const Problem &problem);

} // namespace pipec::schedule
