// Ops to plan structs, and the walk over them: the one analysis that the checks and emission share, so that
// certificate, peak and proof are those of the emitted program.
#pragma once

#include "compiler/passes/Programs.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Simulate.h"

#include <optional>
#include <vector>

namespace pipec {

/// A variant as the programs say it, not yet rolled (one segment of one trip a program), without certificate; and the
/// op behind each instruction.
struct Lowering {
  plan::Variant variant;
  std::vector<std::vector<mlir::Operation *>> ops;                // ops[rank][instruction]
  std::vector<llvm::DenseMap<mlir::Operation *, uint32_t>> index; // and back: index[rank][op]
};

struct LowerOptions {
  std::optional<pipe::Communicator> communicator; // in place of the programs' own
  bool unlimitedBuffers = false;                  // as if no slot were ever used again
};

/// Waits: a use of what another queue defines; for the first transfers of a ring, its last users in the step before.
Lowering lower(const std::vector<pipe::ProgramOp> &programs, const LowerOptions &options = {});

/// Every transfer names a rank that has a program; else an error at one that does not.
mlir::LogicalResult checkPeers(const Lowering &lowering);

/// Holds the fast evaluator against the simulator in ideal mode (links never queue, buffers unlimited): makespan and
/// peaks must be equal. Empty when they are, else what differs.
std::string crossCheck(pipe::PipelineOp pipeline, const std::vector<pipe::ProgramOp> &programs);

/// The analysis: lowered, judged by the plan's rules, and walked.
struct Lowered {
  explicit Lowered(mlir::Operation *module);

  bool valid = false; // the module has programs
  Lowering lowering;
  Status rules;    // what plan::verify says
  Status progress; // what the walk says
  plan::Time span = 0;
  simulate::Result result;
};

} // namespace pipec
