// pipe-fuse-collectives: fewer and larger collectives, so that there are fewer starts.
#include "compiler/passes/Exchanged.h"
#include "compiler/passes/Passes.h"

namespace pipec {

mlir::LogicalResult fuseCollectives(ProgramSet &set, pipe::PipelineOp pipeline) {
  return changeExchange(set, pipeline, schedule::fused);
}

} // namespace pipec
