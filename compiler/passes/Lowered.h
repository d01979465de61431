// Lowers a program set to the structs of a plan, and simulates them. The checks and the emitter share this result, so
// certificate, peak memory and proof are those of the plan that is written.
#pragma once

#include "compiler/program/ProgramSet.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Simulate.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace pipec {

/// The result of the shard of a rank with the highest peak memory, or of the rank if it has no shards. `result`: from a
/// simulation of the variant.
inline const simulate::PlaceResult &fullestOf(const plan::Variant &variant, const simulate::Result &result,
                                              size_t rank) {
  const auto shards = size_t(variant.shards());
  const auto first = result.places.begin() + std::ptrdiff_t(rank * shards);
  return *std::max_element(first, first + std::ptrdiff_t(shards),
                           [](const auto &one, const auto &other) { return one.peak < other.peak; });
}

struct LowerOptions {
  bool kept = true; // true: the variant is kept and therefore rolled (Roll.h); false: it is only simulated (Roller)
};

/// The programs as a variant of a plan, without certificate. The i-th instruction that a rank executes is instruction i
/// of its program in the set. An instruction gets a wait for each hand-over and each use from another queue. The first
/// users of a ring's slots also wait for the slots' last users in the step before. In a drained ring, only the first
/// user waits, for all of them.
plan::Variant lower(const ProgramSet &set, const LowerOptions &options = {});

/// Lowered programs, checked by the rules of plans, and simulated.
struct Lowered {
  /// `keepVisits`: whether `result` holds when each instruction runs.
  explicit Lowered(const ProgramSet &set, bool keepVisits = false);

  plan::Variant variant;   // rolled
  Status rules;            // result of plan::verify
  Status progress;         // result of the simulation: whether the programs run to their end
  plan::Time span = 0;     // time per step when steps follow each other (simulate::span)
  simulate::Result result; // result of the simulation

private:
  void walk(const ProgramSet &set, bool keepVisits);
};

} // namespace pipec
