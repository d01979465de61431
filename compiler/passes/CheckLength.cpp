// pipe-check-length: checks that a step takes no longer than limits::kTime.
#include "compiler/passes/Passes.h"
#include "runtime/plan/Limits.h"

namespace pipec {

mlir::LogicalResult checkLength(const ProgramSet &set, const Lowered &lowered) {
  if (lowered.progress.code != Code::Input)
    return mlir::success(); // all else that the walk may find is for check-deadlock to say
  return mlir::emitError(placeOf("costs", set.programs.front().place))
         << "a step takes longer than " << limits::kTime
         << " ps (about 11 days), the longest step: fewer microbatches, shorter costs or faster links";
}

} // namespace pipec
