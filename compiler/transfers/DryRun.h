// PyTorch's dry run of rows (`_simulate_comms_compute`): every rank does one thing a step, in the order of its row, and
// what lasts how long does not matter.
#pragma once

#include "compiler/transfers/Traffic.h"

namespace pipec {

/// How many steps rows take that are parts of one order.
int64_t stepsOf(const Traffic &traffic, const Rows &rows);

/// What may be done before what stands before it in its row, and by how many cells. A transfer always overtakes a pass
/// that cannot run yet.
struct Overtaking {
  static constexpr size_t kAny = ~size_t(0);
  size_t passes = 0;    // a transfer that cannot be done yet
  size_t transfers = 0; // a pass that could run
};
/// The rows as they run in the dry run if ranks may overtake like this, instead of standing idle, and how many steps
/// they take. Transfers keep their order, and so do passes. `rows` are parts of one order.
Rows packed(const Traffic &traffic, const Rows &rows, Overtaking overtaking, int64_t &steps);

} // namespace pipec
