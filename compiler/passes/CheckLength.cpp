// pipe-check-length: a step takes no longer than can be counted.
#include "compiler/passes/Passes.h"
#include "runtime/plan/Limits.h"

namespace pipec {

mlir::LogicalResult checkLength(const ProgramSet &set, const Lowered &lowered) {
  if (lowered.progress.code != Code::Input)
    return mlir::success(); // what is wrong otherwise the other checks say
  return mlir::emitError(placeOf("costs", set.programs.front().place))
         << "a step takes longer than " << limits::kTime
         << " ps (about 11 days), the longest step: fewer microbatches, shorter costs or faster links";
}

} // namespace pipec
