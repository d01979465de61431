// Programs to plan structs, and the walk over them: the one analysis that the checks and emission share, so that
// certificate, peak and proof are those of the emitted program.
#pragma once

#include "compiler/program/Streams.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Simulate.h"

#include "mlir/Pass/AnalysisManager.h"

#include <optional>
#include <vector>

namespace pipec {

struct LowerOptions {
  std::optional<pipe::Communicator> communicator; // in place of the programs' own
  bool kept = true;                               // and so rolled; else only walked (Roller)
};

/// A variant as the programs say it, without certificate: the i-th instruction that a program executes is record i of
/// its stream. Waits: a use of what another queue
/// defines; for the first transfers of a ring, its last users in the step before.
plan::Variant lower(const Streams &streams, const LowerOptions &options = {});

/// The analysis: lowered, judged by the plan's rules, and walked.
struct Lowered {
  Lowered(mlir::Operation *module, mlir::AnalysisManager &analyses);

  bool valid = false;    // the module has programs
  plan::Variant variant; // rolled
  Status rules;          // what plan::verify says
  Status progress;       // what the walk says
  plan::Time span = 0;
  simulate::Result result;

private:
  void walk(const Streams &streams);
};

} // namespace pipec
