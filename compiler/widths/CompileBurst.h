// Compiles a spec with `schedule: burst`: chooses widths, makes programs, checks and simulates them.
#pragma once

#include "compiler/passes/Passes.h"
#include "compiler/widths/BurstPrograms.h"

namespace pipec::widths {

struct BurstLowering : Lowering {
  std::vector<int32_t> cut; // layers of each stage
  plan::Time least = 0;     // lower bound of a step with these widths (leastOf)
};

/// Like lowerPipeline(). `place`: where the spec asks for the schedule, for messages.
BurstLowering compileBurst(const spec::Spec &spec, mlir::Location place, bool keepVisits);

} // namespace pipec::widths
