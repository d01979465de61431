// `pipec search --exact`: the best order that can be proven in the given time, beside the schedules that the spec
// allows. The order is compiled like a user's order file, so its row has the times of its plan; proofs hold for links
// that never queue.
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
  /// What the solver does not cover ("orders with overlapped pairs"), so only the bound holds there; empty: nothing.
  std::string unasked;
  std::string order;      // as an order file, compute_only
  std::vector<Row> rows;  // sorted; the order's row is "exact"; its bound is also that of `auto`
  plan::Time planned = 0; // time of the order's plan by the objective; 0: the plan was refused
  /// Time to compare with the bound: that of the plan, if shards or replicas make it differ from that of the order.
  plan::Time taken = 0;
  bool isBeaten = false; // a schedule with another backward mode takes less; the bound does not cover such schedules
  double seconds = 0;    // duration of the search
};

/// False after an error, which has been printed. Needs schedule::canDecide().
bool searchExactly(const Source &source, int64_t milliseconds, const Say &say, ExactOrder &made, Failure &failure);

} // namespace pipec
