// What piperun does: a run on this machine, or a request to one.
#pragma once

#include "tools/piperun/Arguments.h"
#include "tools/piperun/Output.h"

namespace pipec::piperun {

Status run(const Arguments &arguments, Outcome &outcome);

/// Asks the run at --control; prints its answer.
Status ask(const Arguments &arguments);

} // namespace pipec::piperun
