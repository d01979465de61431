// The passes (Passes.td) and the pipeline that runs them in order.
#pragma once

#include "compiler/schedule/model/Problem.h"
#include "dialects/pipe/Pipe.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <functional>
#include <memory>
#include <optional>

namespace pipec {

#define GEN_PASS_DECL
#include "compiler/passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "compiler/passes/Passes.h.inc"

/// What is wanted of a compilation besides the plan.
struct Wanted {
  /// The programs' ops, for whoever reads or prints them. Passes work on the records beside them (Streams.h), and a
  /// million ops cost more to make than all else: where they are not wanted, no pass makes any.
  bool ops = true;
  /// When each instruction of the proving walk runs (Lowered::result).
  bool visits = false;
};

std::unique_ptr<mlir::Pass> createBuildSchedule(Wanted wanted);

/// Names the schedules that would fit the limit, "1f1b, auto": who knows the spec knows, the programs do not.
using OtherSchedules = std::function<std::string()>;
std::unique_ptr<mlir::Pass> createCheckMemory(OtherSchedules others);

/// From one pipeline to checked programs: all passes above, in the order of Passes.td.
void buildPipeline(mlir::OpPassManager &manager, Wanted wanted = {});

/// What comes after the first: programs that nothing changes any more, and the checks.
void buildPrograms(mlir::OpPassManager &manager);
void buildChecks(mlir::OpPassManager &manager, OtherSchedules others = {});

/// Hands the words on, which no pass changes.
std::unique_ptr<mlir::Pass> createTakeWords(std::function<void(schedule::Words)> take);

/// Ends a pipeline in which what the checks walked is needed afterwards: takes their analysis out.
struct Lowered;
std::unique_ptr<mlir::Pass> createTakeLowered(std::optional<Lowered> &taken);

/// `--pipe-compile` in pipe-opt: the whole pipeline.
void registerPipelines();

} // namespace pipec
