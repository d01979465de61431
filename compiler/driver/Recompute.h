// What `recompute: auto` compiles: the choices of stages that promise most, until none that is left can be better or
// the work for it is done. The plan of the best is the answer.
#pragma once

#include "compiler/driver/Cut.h"

namespace pipec {

/// Compiles a spec that has a cut. Leaves in `spec` the choice that the result was made with. If the schedule is not
/// `auto`, no choice is better, where there are at most RecomputeSearch::kAll and a step is small. `ofMany`: it is one
/// of many cuts, for which little is done. Code::Check where no plan takes less than `below`.
/// Asked to stop, it goes on with the best so far.
Code compileRecompute(spec::Spec &spec, mlir::MLIRContext &context, const std::stop_token &stop, CompileSpec compile,
                      schedule::Time below, bool ofMany, Made &made, bool &internal);

} // namespace pipec
