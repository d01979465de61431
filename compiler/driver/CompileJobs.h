// Background jobs in finished variants: which rank runs which, and the windows of their pieces.
#pragma once

#include "compiler/spec/Spec.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Simulate.h"

#include "mlir/IR/MLIRContext.h"

#include <vector>

namespace pipec {

/// Gives variants, of which `walks` are, their jobs. Each rank runs the first that may run on it and, in every variant,
/// fits into its memory beside the rest. Code::Check, with an error that says what would do: a job fits nowhere, or no
/// piece of one keeps the promise. `warns`: also says of which ranks and jobs nothing comes.
Code addJobs(const spec::Spec &spec, const std::vector<simulate::Result> &walks, bool warns,
             std::vector<plan::Variant> &variants, mlir::MLIRContext &context);

} // namespace pipec
