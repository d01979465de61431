// From checked programs to a plan (design, section 5).
#pragma once

#include "compiler/passes/Lowered.h"
#include "runtime/plan/Plan.h"

namespace pipec::emit {

/// The certificate of walked programs: their times, and, of their problem and its alternatives (other placements that
/// `auto` could have chosen), the least bounds.
plan::Certificate certificate(const Lowered &lowered, const schedule::Problem &problem,
                              const std::vector<schedule::Problem> &alternatives);

/// One variant with its certificate. Takes the programs out of `lowered`.
plan::Variant variant(Lowered &lowered, const schedule::Problem &problem,
                      const std::vector<schedule::Problem> &alternatives, std::string name);

/// A plan of these variants on one process a rank.
plan::Plan plan(std::vector<plan::Variant> variants, uint64_t specHash, std::vector<uint8_t> provider);

} // namespace pipec::emit
