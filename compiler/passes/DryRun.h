// PyTorch's dry run of rows (`_simulate_comms_compute`): every rank does one thing a step, in the order of its row, and
// what lasts how long does not matter.
#pragma once

#include "compiler/passes/Traffic.h"

namespace pipec {

/// How many steps rows take that are parts of one order.
int64_t stepsOf(const Traffic &traffic, const Rows &rows);

/// Rows that take fewer steps, in none of which a rank stands idle that a pass could run: where a rank's transfer
/// cannot be done yet, the pass behind it overtakes it, and those behind that, as long as each stood at most
/// `overtaking` cells behind it. Transfers keep their order, and so do passes. `rows` are parts of one order.
Rows packed(const Traffic &traffic, const Rows &rows, size_t overtaking);

} // namespace pipec
