// The question that the exact search asks: is there any order that takes at most a given time? Z3 answers it, where
// pipec was built with Z3 (DecideZ3.cpp); else there is no answer (DecideNone.cpp).
#pragma once

#include "compiler/schedule/model/Capacity.h"
#include "compiler/schedule/model/Objective.h"

#include <optional>
#include <stop_token>

namespace pipec::schedule {

enum class Decided : uint8_t { Yes, No, OutOfTime, TooLarge };

struct Question {
  Objective objective = Objective::Span;
  Time target = 0;           // is there an order of this time or less?
  int64_t milliseconds = 0;  // to answer in, about
  std::stop_token stop = {}; // asked to stop, there is no answer
};

/// True where pipec was built with a solver.
bool canDecide();

/// On Yes, `words` holds an order within the capacities whose time is the target or less. Needs check(problem) to have
/// passed, and canDecide().
Decided decide(const Problem &problem, const Capacities &capacities, const Question &question, Words &words);

} // namespace pipec::schedule
