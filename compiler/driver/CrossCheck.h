// The fast evaluator held against its judge, the simulator.
#pragma once

#include "compiler/program/ProgramSet.h"

#include <string>

namespace pipec {

/// The programs in ideal mode (links never queue, buffers unlimited, W ordered), to be walked: each flow of tensors has
/// a queue, all passes are on the compute queue, and transfers stand beside their passes. Their transfers must be
/// there, and have no order yet.
plan::Variant idealOf(const ProgramSet &set);

/// Runs the words in the evaluator and their programs in the simulator: makespan and peaks must be equal. Empty when
/// they are, else what differs.
std::string crossCheck(const schedule::Problem &problem, const schedule::Words &words, const plan::Variant &ideal);

} // namespace pipec
