// The passes (Passes.td) and the pipeline that runs them in order.
#pragma once

#include "compiler/schedule/Problem.h"
#include "dialects/pipe/Pipe.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>
#include <optional>

namespace pipec {

#define GEN_PASS_DECL
#include "compiler/passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/passes/Passes.h.inc"

/// From one pipeline to checked programs: all passes above, in the order of Passes.td.
void buildPipeline(mlir::OpPassManager &manager);

/// Ends a pipeline in which what the checks walked is needed afterwards: takes their analysis out, and the words.
struct Lowered;
std::unique_ptr<mlir::Pass> createTakeLowered(std::optional<Lowered> &taken, schedule::Words &words);

/// `--pipe-compile` in pipe-opt: the whole pipeline.
void registerPipelines();

} // namespace pipec
