// The passes, in order: functions on the program set (compiler/program), which the compile owns. Passes.td says of each
// what it does, needs and leaves. pipe-opt runs each from text to text.
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

// All errors are MLIR diagnostics. `pipeline` is the one that the programs were made from.

mlir::FailureOr<ProgramSet> buildSchedule(pipe::PipelineOp pipeline);

// The two for collectives of replicas come before communication: they make programs anew, and what they cut passes into
// says where transfers stand. A compile that searches for an exchange has no need of them.
mlir::LogicalResult decoupleAllReduce(ProgramSet &set, pipe::PipelineOp pipeline);
mlir::LogicalResult fuseCollectives(ProgramSet &set, pipe::PipelineOp pipeline);

/// Called with programs whose transfers are there and have no order yet (addTransfers()). They change once the future
/// is ready.
using SeeTransfers = std::function<std::future<void>(const ProgramSet &)>;
/// Sets `ordered` to the order in which the instructions then stand; absent where the pipeline's orders place
/// transfers.
mlir::LogicalResult insertCommunication(ProgramSet &set, pipe::PipelineOp pipeline, std::optional<Ordered> &ordered,
                                        const SeeTransfers &see = {});
/// `ordered`: from insertCommunication, if known.
mlir::LogicalResult overlapCommunication(ProgramSet &set, std::optional<Ordered> ordered = {});
/// `known`: the pipeline; null if there is none.
mlir::LogicalResult hoistRecompute(ProgramSet &set, pipe::PipelineOp known);
mlir::LogicalResult allocateSlots(ProgramSet &set, pipe::PipelineOp known);
/// The same, with rings for the predicted run alone: for programs that are tried out, and may yet want the memory.
mlir::LogicalResult allocatePredicted(ProgramSet &set, pipe::PipelineOp known);

mlir::LogicalResult checkLength(const ProgramSet &set, const Lowered &lowered);
/// Names the schedules that would fit the memory limit: "1f1b, auto". Only a caller who has the spec can know these.
using OtherSchedules = std::function<std::string()>;
mlir::LogicalResult checkMemory(const ProgramSet &set, const Lowered &lowered, const OtherSchedules &others = {});
mlir::LogicalResult checkDeadlock(const ProgramSet &set, const Lowered &lowered, mlir::Location module);

/// A variant whose certificate has a span, and a walk of it.
struct Walked {
  plan::Variant *variant = nullptr;
  const simulate::Result *walk = nullptr;
};
/// The last pass, on all variants of a plan at once, since a rank runs one job in all of them: the first that may run
/// on it and, in every variant, fits into its memory beside the rest. They get their jobs, pieces, windows and delay;
/// their programs are no longer rolled. Code::Check, with an error that says what would do: a job fits nowhere, or no
/// piece of one keeps the promise. `place`: of the jobs in the spec, for messages. `warns`: also says of which ranks
/// and jobs nothing comes.
Code openWindows(const jobs::Jobs &jobs, mlir::Location place, bool warns, llvm::ArrayRef<Walked> variants);
/// Notes what was opened in the programs that the variant was lowered from.
void noteWindows(const plan::Variant &variant, ProgramSet &set);

/// What lowerPipeline makes.
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

/// From a pipeline to checked programs: all passes above but openWindows in order, up to the first that fails.
Lowering lowerPipeline(pipe::PipelineOp pipeline, const LowerPipelineOptions &options = {});

/// Makes the passes known to pipe-opt, and `--pipe-compile`, which is all of them in order.
void registerPasses();

} // namespace pipec
