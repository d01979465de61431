// From checked programs to a plan (design, section 5).
#pragma once

#include "compiler/passes/Lowered.h"
#include "compiler/schedule/bounds/Bounds.h"
#include "runtime/plan/Plan.h"

namespace pipec::emit {

/// The certificate of walked programs: their times, and, of their problem and its alternatives (other placements that
/// `auto` could have chosen), the least bounds.
plan::Certificate certificate(plan::Time makespan, plan::Time span, const schedule::Problem &problem,
                              const std::vector<schedule::Problem> &alternatives);

/// The certificate of these times and bounds.
plan::Certificate certificate(plan::Time makespan, plan::Time span, const schedule::Bounded &bounds);

/// Lowers the certificate's bounds to what holds whatever had been chosen: of each list, one problem has its orders
/// (schedule::casesOf).
void widen(plan::Certificate &certificate, const std::vector<std::vector<schedule::Problem>> &choices);

/// One variant with its certificate. Takes the programs out of `lowered`.
plan::Variant variant(Lowered &lowered, const schedule::Problem &problem,
                      const std::vector<schedule::Problem> &alternatives, std::string name);

/// A plan of these variants on so many replicas of each rank, of as many shards as the variants have.
plan::Plan plan(std::vector<plan::Variant> variants, int32_t degree, uint64_t specHash, std::vector<uint8_t> provider);

} // namespace pipec::emit
