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

/// Whether programs get their ops, for whoever reads or prints them, or whether the records beside them (Streams.h) are
/// all there is: passes work on records, and a million ops cost more to make than all else.
enum class Ops { Written, LeftOut };

/// Programs whose ops are left out; the passes behind it then leave out theirs.
std::unique_ptr<mlir::Pass> createBuildSchedule(Ops ops);

/// From one pipeline to checked programs: all passes above, in the order of Passes.td.
void buildPipeline(mlir::OpPassManager &manager, Ops ops = Ops::Written);

/// Ends a pipeline in which what the checks walked is needed afterwards: takes their analysis out, and the words.
struct Lowered;
std::unique_ptr<mlir::Pass> createTakeLowered(std::optional<Lowered> &taken, schedule::Words &words);

/// `--pipe-compile` in pipe-opt: the whole pipeline.
void registerPipelines();

} // namespace pipec
