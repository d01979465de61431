// From checked programs to a plan (design, section 5).
#pragma once

#include "compiler/passes/Lowered.h"
#include "compiler/schedule/bounds/Bounds.h"
#include "runtime/plan/Plan.h"

namespace pipec::emit {

/// The certificate of walked programs: their times, and what is proven of all plans of their spec.
plan::Certificate certificate(plan::Time makespan, plan::Time span, const schedule::LeastTimes &least);

/// Lowers the certificate's bounds to what holds whatever had been chosen.
void widen(plan::Certificate &certificate, const schedule::LeastWays &choices);

/// One variant with its certificate. The variant takes programs and portions out of `lowered`.
plan::Variant variant(Lowered &lowered, const schedule::LeastWays &least, std::string name);

/// A plan of these variants on so many replicas of each rank, of as many shards as the variants have.
plan::Plan plan(std::vector<plan::Variant> variants, int32_t degree, uint64_t specHash, std::vector<uint8_t> provider);

} // namespace pipec::emit
