// PyTorch's dry run of rows (`_simulate_comms_compute`): in each step every rank does one thing, in the order of its
// row; how long things last does not matter.
#pragma once

#include "compiler/transfers/Traffic.h"

namespace pipec {

/// How many steps the rows take. They must be parts of one order.
int64_t stepsOf(const Traffic &traffic, const Rows &rows);

/// By how many cells of its row a cell may come earlier than it stands there. A transfer may always come before a pass
/// that cannot run yet.
struct Overtaking {
  static constexpr size_t kAny = ~size_t(0);
  size_t passes = 0;    // a pass, before transfers that cannot be done yet
  size_t transfers = 0; // a transfer, before passes that could run
};
/// The rows in the order in which the dry run does them if ranks may overtake like this instead of standing idle, and
/// how many steps that takes. Transfers keep their order among each other, and so do passes. `rows` must be parts of
/// one order.
Rows packed(const Traffic &traffic, const Rows &rows, Overtaking overtaking, int64_t &steps);

} // namespace pipec
