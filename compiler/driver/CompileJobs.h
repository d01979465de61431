// Background jobs of a spec: as the other rooms take them, and in finished variants.
#pragma once

#include "compiler/passes/Passes.h"
#include "compiler/spec/Spec.h"
#include "runtime/plan/Status.h"

#include "mlir/IR/Location.h"

namespace pipec {

/// Without what their libraries are handed.
jobs::Jobs jobsOf(const spec::Spec &spec);

/// Where the spec says what of its jobs, by key (placeOf()).
llvm::SmallVector<mlir::Location> placesOfJobs(const spec::Spec &spec, mlir::MLIRContext &context);

/// openWindows() of the spec's jobs, with what their libraries are handed.
Code addJobs(const spec::Spec &spec, bool warns, llvm::ArrayRef<Walked> variants, mlir::MLIRContext &context);

} // namespace pipec
