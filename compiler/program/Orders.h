// Orders of the dialect and words of the scheduler, one made of the other.
#pragma once

#include "compiler/schedule/model/Problem.h"
#include "dialects/pipe/Pipe.h"

namespace pipec {

/// The passes of an order; without its transfers.
schedule::Word wordOf(pipe::OrderAttr order);

std::vector<pipe::Action> actionsOf(const schedule::Word &word);

} // namespace pipec
