// The passes below the design level, in order: functions on the program set (compiler/program), which the compile owns.
// Passes.td says of each what it does, needs and leaves; in pipe-opt each goes from text to text.
#pragma once

#include "compiler/passes/Lowered.h"
#include "compiler/program/Dependences.h"
#include "compiler/program/ProgramSet.h"
#include "dialects/pipe/Pipe.h"
#include "runtime/plan/Status.h"

#include <functional>
#include <optional>

namespace pipec {

// Errors go to the MLIR context's diagnostics. `pipeline` is what the programs were made from; by the name of `known`
// it may be null.

mlir::FailureOr<ProgramSet> buildSchedule(pipe::PipelineOp pipeline);

/// `ordered` becomes the order of all instructions, where that is what orders them, for the next pass.
mlir::LogicalResult insertCommunication(ProgramSet &set, pipe::PipelineOp pipeline, std::optional<Ordered> &ordered);
mlir::LogicalResult overlapCommunication(ProgramSet &set, std::optional<Ordered> ordered = {});
mlir::LogicalResult allocateSlots(ProgramSet &set, pipe::PipelineOp known);

mlir::LogicalResult checkLength(const ProgramSet &set, const Lowered &lowered);
/// Names the schedules that would fit the limit, "1f1b, auto": who knows the spec knows, the programs do not.
using OtherSchedules = std::function<std::string()>;
mlir::LogicalResult checkMemory(const ProgramSet &set, const Lowered &lowered, const OtherSchedules &others = {});
mlir::LogicalResult checkDeadlock(const ProgramSet &set, const Lowered &lowered, mlir::Location module);

/// What a failed compile of a pipeline says of its input: Input where the spec is wrong, Check where a check failed.
struct Lowering {
  ProgramSet set;
  std::optional<Lowered> lowered; // where all passes went through
  Code code = Code::Ok;
};

struct LowerPipelineOptions {
  bool keepVisits = false;                       // as of Lowered
  std::function<void(const ProgramSet &)> built; // sees the programs before any other pass does
  OtherSchedules others;
};

/// From one pipeline to checked programs: all passes above in order.
Lowering lowerPipeline(pipe::PipelineOp pipeline, const LowerPipelineOptions &options = {});

/// The passes and `--pipe-compile`, all of them in order, for pipe-opt.
void registerPasses();

} // namespace pipec
