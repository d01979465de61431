// Compares the fast evaluator with the simulator.
#pragma once

#include "compiler/program/ProgramSet.h"

#include <string>

namespace pipec {

/// The programs in ideal mode (links never queue, buffers unlimited, W ordered), for simulation: each flow of tensors
/// has a queue, all passes are on the compute queue, and transfers stand beside their passes. The set must have its
/// transfers, without an order yet.
plan::Variant idealOf(const ProgramSet &set);

/// Runs the words in the evaluator and their programs in the simulator. Makespan and peaks must be equal. Returns an
/// empty string if they are, else what differs.
std::string crossCheck(const schedule::Problem &problem, const schedule::Words &words, const plan::Variant &ideal);

} // namespace pipec
