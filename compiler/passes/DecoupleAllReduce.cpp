// pipe-decouple-all-reduce: halves in place of all-reduces. DeAR (arXiv 2302.12445) hides the gathers behind the next
// step's forward; here its span decides, and updates may be divided between the halves.
#include "compiler/passes/Exchanged.h"
#include "compiler/passes/Passes.h"

namespace pipec {

mlir::LogicalResult decoupleAllReduce(ProgramSet &set, pipe::PipelineOp pipeline) {
  return changeExchange(set, pipeline, schedule::decoupled);
}

} // namespace pipec
