// From a program set to the structs of a plan, and the simulator's walk over them. The checks and the emitter share
// this one result, so that certificate, memory peak and proof are those of the plan that is written.
#pragma once

#include "compiler/program/ProgramSet.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Simulate.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace pipec {

/// What became of the shard of a rank that holds most; of the rank, where it has none. `result`: of a walk of the
/// variant.
inline const simulate::PlaceResult &fullestOf(const plan::Variant &variant, const simulate::Result &result,
                                              size_t rank) {
  const auto shards = size_t(variant.shards());
  const auto first = result.places.begin() + std::ptrdiff_t(rank * shards);
  return *std::max_element(first, first + std::ptrdiff_t(shards),
                           [](const auto &one, const auto &other) { return one.peak < other.peak; });
}

struct LowerOptions {
  bool kept = true; // whether the variant is kept, and so rolled; else it is only walked (Roller)
};

/// The programs as a variant of a plan, without certificate. The i-th instruction that a rank executes is instruction i
/// of its program in the set. An instruction gets a wait for each hand-over and each use from another queue. The first
/// users of a ring's slots also wait for the slots' last users in the step before, the first of a ring that is drained
/// for all of them.
plan::Variant lower(const ProgramSet &set, const LowerOptions &options = {});

/// Programs lowered, judged by the rules of plans, and walked.
struct Lowered {
  /// `keepVisits`: whether `result` says when each instruction runs.
  explicit Lowered(const ProgramSet &set, bool keepVisits = false);

  plan::Variant variant;   // rolled
  Status rules;            // of plan::verify
  Status progress;         // of the walk: whether the programs run to their end
  plan::Time span = 0;     // time of a step among others (simulate::span)
  simulate::Result result; // of the walk

private:
  void walk(const ProgramSet &set, bool keepVisits);
};

} // namespace pipec
