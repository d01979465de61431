// Makes a plan from checked programs (design, section 5).
#pragma once

#include "compiler/passes/Lowered.h"
#include "compiler/schedule/bounds/Bounds.h"
#include "runtime/plan/Plan.h"

namespace pipec::emit {

/// The certificate of simulated programs: their times, and the proven bounds for all plans of their spec.
plan::Certificate certificate(plan::Time makespan, plan::Time span, const schedule::LeastTimes &least);

/// Lowers the certificate's bounds to those that hold for every choice.
void widen(plan::Certificate &certificate, const schedule::LeastWays &choices);

/// One variant with its certificate. Moves programs and portions out of `lowered`.
plan::Variant variant(Lowered &lowered, const schedule::LeastWays &least, std::string name);

/// A plan with these variants, `degree` replicas of each rank, and as many shards as the variants have.
plan::Plan plan(std::vector<plan::Variant> variants, int32_t degree, uint64_t specHash, std::vector<uint8_t> provider);

} // namespace pipec::emit
