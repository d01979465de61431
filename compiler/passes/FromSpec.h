// From a spec to the design level: the pipeline with its block or words, locations pointing into the YAML.
#pragma once

#include "compiler/spec/Diagnostic.h"
#include "compiler/spec/Spec.h"
#include "dialects/pipe/Pipe.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace pipec {

/// A module with one `pipe.pipeline`; null after an error at the place in the spec (an unknown schedule, a parameter
/// that it does not have, what contradicts what the schedule fixes).
mlir::OwningOpRef<mlir::ModuleOp> fromSpec(const spec::Spec &spec, mlir::MLIRContext &context);

/// What the reader found wrong, as diagnostics of the context.
void report(const std::vector<spec::Diagnostic> &diagnostics, mlir::MLIRContext &context);

} // namespace pipec
