// The question of the exact search: is there an order that takes at most a given time? Z3 answers if pipec was built
// with Z3 (DecideZ3.cpp); otherwise there is no answer (DecideNone.cpp).
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
  int64_t milliseconds = 0;  // approximate time limit for the answer
  std::stop_token stop = {}; // on a request to stop, there is no answer
};

/// Whether pipec was built with a solver.
bool canDecide();

/// On Yes, `words` is an order within the capacities that takes at most the target. Needs check(problem) to have
/// passed, and canDecide().
Decided decide(const Problem &problem, const Capacities &capacities, const Question &question, Words &words);

} // namespace pipec::schedule
