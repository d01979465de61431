// `pipec search --exact`: the best order that can be proven in the time given, beside the schedules that the spec
// allows. It goes through the compiler as everybody's order file does, so its row says what its plan takes; what is
// proven holds on links that never queue.
#pragma once

#include "compiler/compare/Comparison.h"
#include "compiler/schedule/exact/Exact.h"

#include <optional>
#include <string>
#include <vector>

namespace pipec {

struct ExactOrder {
  schedule::Objective objective = schedule::Objective::Span;
  std::optional<schedule::Exact> found; // absent: `auto` has a plan, and no order of the search fits
  std::string unasked;                  // of what no more than the bound can be proven; empty: of nothing
  std::string order;                    // as an order file, compute_only
  std::vector<Row> rows;                // sorted; the order's is "exact"; its bound is also that of `auto`
  plan::Time planned = 0;               // by the objective, the time of the order's plan; 0: it was refused
  plan::Time taken = 0;                 // what the bound is held against: of the plan where shards or replicas make it
                                        // another than the order's
  bool isBeaten = false; // a schedule with other backwards takes less; the bound is not of such schedules
  double seconds = 0;    // taken
};

/// False after an error, which has been said. Needs schedule::canDecide().
bool searchExactly(const Source &source, int64_t milliseconds, const Say &say, ExactOrder &made, Failure &failure);

} // namespace pipec
