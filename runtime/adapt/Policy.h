// Policies: ways to choose the next step's candidate from what each candidate would have taken so far.
#pragma once

#include "runtime/plan/Plan.h"

#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace pipec::adapt {

using plan::Time;

/// By candidate: what it would have taken.
using Times = std::vector<Time>;

/// One step, as known when the next was decided.
struct Hindsight {
  Times step;         // on the network measured in the step
  Times late, latest; // on the network measured in the last half of the step, and in the last eighth
  Times phase;        // the next step on the network measured one period ago; empty without a period
  Time end = 0;       // end of the measurements
};

/// The last steps, the newest last.
using History = std::deque<Hindsight>;
inline constexpr size_t kRemembered = 256;

struct Policy {
  std::string name;
  /// The policy's prediction of the next step's duration with each candidate. The history is not empty.
  std::function<Times(const History &)> predict;
  int64_t stays = -1; // always chooses this candidate; -1: chooses the shortest prediction
};

/// stay v; last 1, 2, 4 … 32; now (half), now (eighth); phase.
std::vector<Policy> policiesFor(size_t candidates);

/// The candidate of the least time, the first of equals.
size_t leastOf(const Times &times);

/// By candidate: the mean over the last `steps` steps at most.
Times meanOf(const History &history, size_t steps);

} // namespace pipec::adapt
