// PyTorch's dry run of rows (`_simulate_comms_compute`): in each step every rank does the next action of its row;
// durations do not matter.
#pragma once

#include "compiler/transfers/Traffic.h"

namespace pipec {

/// The number of steps of the rows. The rows must be parts of one order.
int64_t stepsOf(const Traffic &traffic, const Rows &rows);

/// How many cells of its row a cell may overtake. A transfer may always overtake a pass that cannot run yet.
struct Overtaking {
  static constexpr size_t kAny = ~size_t(0);
  size_t passes = 0;    // by a pass: transfers that cannot be done yet
  size_t transfers = 0; // by a transfer: passes that could run
};
/// The rows in the order in which the dry run does them, if ranks may overtake like this when they would be idle; sets
/// `steps` to the number of steps. Transfers keep their order among each other, and so do passes. `rows` must be parts
/// of one order.
Rows packed(const Traffic &traffic, const Rows &rows, Overtaking overtaking, int64_t &steps);

} // namespace pipec
