// The program set to plan structs, and the walk over them: the one result that the checks and emission share, so that
// certificate, peak and proof are those of the emitted program.
#pragma once

#include "compiler/program/ProgramSet.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Simulate.h"

#include <optional>
#include <vector>

namespace pipec {

struct LowerOptions {
  bool kept = true; // and so rolled; else only walked (Roller)
};

/// A variant as the programs say it, without certificate: the i-th instruction that a program executes is instruction i
/// of the set's. Waits: a use of what another queue defines; for the first transfers of a ring, its last users in the
/// step before.
plan::Variant lower(const ProgramSet &set, const LowerOptions &options = {});

/// Lowered, judged by the plan's rules, and walked.
struct Lowered {
  /// `keepVisits`: of the walk that proves the programs, when each instruction runs.
  explicit Lowered(const ProgramSet &set, bool keepVisits = false);

  plan::Variant variant; // rolled
  Status rules;          // what plan::verify says
  Status progress;       // what the walk says
  plan::Time span = 0;
  simulate::Result result;

private:
  void walk(const ProgramSet &set, bool keepVisits);
};

} // namespace pipec
