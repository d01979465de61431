// The passes, in order: functions on the program set (compiler/program), which the compile owns. Passes.td says what
// each pass does, needs and leaves. pipe-opt runs each pass from text to text.
#pragma once

#include "compiler/jobs/Jobs.h"
#include "compiler/passes/Lowered.h"
#include "compiler/program/Dependences.h"
#include "compiler/program/ProgramSet.h"
#include "dialects/pipe/Pipe.h"
#include "runtime/plan/Status.h"

#include <functional>
#include <future>
#include <optional>

namespace pipec {

// All errors are MLIR diagnostics. `pipeline` is the pipeline that the programs were made from.

mlir::FailureOr<ProgramSet> buildSchedule(pipe::PipelineOp pipeline);

// The two passes for collectives of replicas precede communication: they rebuild programs, and the parts into which
// they cut passes determine where transfers go. A compile that searches for an exchange does not need them.
mlir::LogicalResult decoupleAllReduce(ProgramSet &set, pipe::PipelineOp pipeline);
mlir::LogicalResult fuseCollectives(ProgramSet &set, pipe::PipelineOp pipeline);

/// Called with programs that have transfers without an order yet (addTransfers()). The programs change only after the
/// future is ready.
using SeeTransfers = std::function<std::future<void>(const ProgramSet &)>;
/// Sets `ordered` to the resulting order of the instructions; absent if the pipeline's orders place transfers.
mlir::LogicalResult insertCommunication(ProgramSet &set, pipe::PipelineOp pipeline, std::optional<Ordered> &ordered,
                                        const SeeTransfers &see = {});
/// `ordered`: from insertCommunication, if known.
mlir::LogicalResult overlapCommunication(ProgramSet &set, std::optional<Ordered> ordered = {});
/// `known`: the pipeline; null if there is none.
mlir::LogicalResult hoistRecompute(ProgramSet &set, pipe::PipelineOp known);
mlir::LogicalResult allocateSlots(ProgramSet &set, pipe::PipelineOp known);
/// Like allocateSlots, with rings for the predicted run only: for trial programs, which may still need the memory.
mlir::LogicalResult allocatePredicted(ProgramSet &set, pipe::PipelineOp known);

mlir::LogicalResult checkLength(const ProgramSet &set, const Lowered &lowered);
/// Names the schedules that would fit the memory limit: "1f1b, auto". Only a caller with the spec can know these.
using OtherSchedules = std::function<std::string()>;
mlir::LogicalResult checkMemory(const ProgramSet &set, const Lowered &lowered, const OtherSchedules &others = {});
mlir::LogicalResult checkDeadlock(const ProgramSet &set, const Lowered &lowered, mlir::Location module);

/// A variant with a span in its certificate, and its simulation.
struct Walked {
  plan::Variant *variant = nullptr;
  const simulate::Result *walk = nullptr;
};
/// The last pass. It works on all variants of a plan at once, since a rank runs the same job in all of them: the first
/// job that may run on the rank and, in every variant, fits into its memory beside the rest. The variants get their
/// jobs, pieces, windows and delay; their programs are no longer rolled. Code::Check, with an error that says what
/// would help, if a job fits nowhere or no piece of a job keeps the promise. `place`: the place of the jobs in the
/// spec, for messages. `warns`: also warn about ranks and jobs for which nothing runs.
Code openWindows(const jobs::Jobs &jobs, mlir::Location place, bool warns, llvm::ArrayRef<Walked> variants);
/// Records the opened windows in the programs that the variant was lowered from.
void noteWindows(const plan::Variant &variant, ProgramSet &set);

/// The result of lowerPipeline.
struct Lowering {
  ProgramSet set;
  std::optional<Lowered> lowered; // absent if a pass failed
  Code code = Code::Ok;           // Input: the spec is wrong. Check: a later pass or a check failed.
};

struct LowerPipelineOptions {
  bool keepVisits = false; // as in Lowered
  SeeTransfers see;
  OtherSchedules others;
};

/// Lowers a pipeline to checked programs: runs all passes above except openWindows in order, up to the first that
/// fails.
Lowering lowerPipeline(pipe::PipelineOp pipeline, const LowerPipelineOptions &options = {});

/// Registers the passes for pipe-opt, and `--pipe-compile`, which runs all of them in order.
void registerPasses();

} // namespace pipec
