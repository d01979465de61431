// The fast evaluator held against its judge, the simulator.
#pragma once

#include "compiler/schedule/model/Problem.h"
#include "runtime/plan/Plan.h"

#include <string>

namespace pipec {

/// Both run the words in ideal mode (links never queue, buffers unlimited, W ordered): makespan and peaks must be
/// equal. Empty when they are, else what differs. `ideal`: the programs of the words, lowered so (LowerOptions).
std::string crossCheck(const schedule::Problem &problem, const schedule::Words &words, const plan::Variant &ideal);

} // namespace pipec
