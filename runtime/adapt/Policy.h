// Ways to choose the next step's candidate from what each would have taken so far.
#pragma once

#include "runtime/plan/Plan.h"

#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace pipec::adapt {

using plan::Time;

/// What each candidate would have taken, by candidate.
using Times = std::vector<Time>;

/// Of one step, as known when the next was decided.
struct Hindsight {
  Times step;         // under what was measured in it
  Times late, latest; // under what was measured in the last half of it, and in the last eighth
  Times phase;        // the next step under what was measured a period ago; empty where there is none
  Time end = 0;       // of what was measured
};

/// The last steps, the newest last.
using History = std::deque<Hindsight>;
inline constexpr size_t kRemembered = 256;

struct Policy {
  std::string name;
  /// What the next step would take with each candidate, as this policy sees it. The history is not empty.
  std::function<Times(const History &)> predict;
  int64_t stays = -1; // with this candidate, whatever is predicted; -1: it takes the least
};

/// stay v; last 1, 2, 4 … 32; now (half), now (eighth); phase.
std::vector<Policy> policiesFor(size_t candidates);

/// The candidate of the least time, the first of equals.
size_t leastOf(const Times &times);

/// The mean over the last steps, of at most so many.
Times meanOf(const History &history, size_t steps);

} // namespace pipec::adapt
