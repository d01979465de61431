// What `cut: auto` compiles: the cuts that promise most, until none that is left can be better or the work for it is
// done. The plan of the best is the answer.
#pragma once

#include "compiler/driver/Auto.h"
#include "compiler/schedule/cut/Balance.h"

namespace pipec {

/// Compiles a spec that has a cut, whatever its schedule, as CompileOnce does a choice.
/// Only a plan that takes less than `below` is of interest; 0: any.
using CompileSpec = llvm::function_ref<Code(const spec::Spec &, schedule::Time below, Made &, bool &internal)>;

/// Leaves in `spec` the cut that the result was made with; on it stands the bound over all cuts. The choice is exact
/// for one stage a rank and at most CutSearch::kAll cuts, if the schedule is not `auto`.
/// Asked to stop, it goes on with the best so far, or with a cut as even as can be, and the bound is that of the work.
Code compileCut(spec::Spec &spec, mlir::MLIRContext &context, const std::stop_token &stop, CompileSpec compile,
                Made &made, bool &internal);

} // namespace pipec
