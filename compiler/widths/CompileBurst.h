// A spec with `schedule: burst`, compiled: widths chosen, programs made, checked and walked.
#pragma once

#include "compiler/passes/Passes.h"
#include "compiler/widths/BurstPrograms.h"

namespace pipec::widths {

struct BurstLowering : Lowering {
  std::vector<int32_t> cut; // layers of each stage
  plan::Time least = 0;     // no step of these widths takes less (leastOf)
};

/// As lowerPipeline(). `place`: where the spec asks for the schedule, for messages.
BurstLowering compileBurst(const spec::Spec &spec, mlir::Location place, bool keepVisits);

} // namespace pipec::widths
