// Compiles `cut: auto`: the most promising cuts first, until none that is left can be better or the work limit is
// reached. The plan of the best cut is the answer.
#pragma once

#include "compiler/driver/Auto.h"
#include "compiler/schedule/cut/Balance.h"

namespace pipec {

/// Compiles a spec that has a cut, with any schedule, as CompileOnce does a choice. Only plans that take less than
/// `below` are wanted; 0: any plan.
using CompileSpec = llvm::function_ref<Code(const spec::Spec &, schedule::Time below, Made &, bool &internal)>;

/// Sets `spec` to the cut of the result, and the plan's bound to the bound over all cuts. The choice is exact for one
/// stage per rank and at most CutSearch::kAll cuts, if the schedule is not `auto`. On a request to stop, continues with
/// the best cut so far, or with an even cut; the bound is then that of the work.
Code compileCut(spec::Spec &spec, mlir::MLIRContext &context, const std::stop_token &stop, CompileSpec compile,
                Made &made, bool &internal);

} // namespace pipec
