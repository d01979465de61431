// Converts an order of the dialect (#pipe.order) to a word of the scheduler and back. Both are one rank's passes in
// order.
#pragma once

#include "compiler/schedule/model/Problem.h"
#include "dialects/pipe/Pipe.h"

namespace pipec {

/// The passes of an order; its transfers are left out.
schedule::Word wordOf(pipe::OrderAttr order);

std::vector<pipe::Action> actionsOf(const schedule::Word &word);

} // namespace pipec
