// From checked programs to a plan (design, section 5).
#pragma once

#include "compiler/passes/Lowered.h"
#include "runtime/plan/Plan.h"

namespace pipec::emit {

/// Lists of problems: whatever else could have been chosen (of placements, of stages to recompute), its orders are
/// orders of one of each list, or of the own problem.
using Alternatives = std::vector<std::vector<schedule::Problem>>;

/// The certificate of walked programs: their times, and the best bounds that hold for all alternatives.
plan::Certificate certificate(const Lowered &lowered, const schedule::Problem &problem,
                              const Alternatives &alternatives);

/// One variant with its certificate. Takes the programs out of `lowered`.
plan::Variant variant(Lowered &lowered, const schedule::Problem &problem, const Alternatives &alternatives,
                      std::string name);

/// A plan of these variants on one process a rank.
plan::Plan plan(std::vector<plan::Variant> variants, uint64_t specHash, std::vector<uint8_t> provider);

} // namespace pipec::emit
