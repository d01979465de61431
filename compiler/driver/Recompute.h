// Compiles `recompute: auto`: the most promising choices of stages first, until none that is left can be better or the
// work limit is reached. The plan of the best choice is the answer.
#pragma once

#include "compiler/driver/Cut.h"

namespace pipec {

/// Compiles a spec that has a cut, and sets `spec` to the choice of the result. The result is optimal if the schedule
/// is not `auto`, there are at most RecomputeSearch::kAll choices and a step is small. `ofMany`: this is one of many
/// cuts, so little work is done. Code::Check if no plan takes less than `below`. On a request to stop, continues with
/// the best so far.
Code compileRecompute(spec::Spec &spec, mlir::MLIRContext &context, const std::stop_token &stop, CompileSpec compile,
                      schedule::Time below, bool ofMany, Made &made, bool &internal);

} // namespace pipec
