// pipe-check-length: a step takes no longer than can be counted.
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"
#include "runtime/plan/Limits.h"

namespace pipec {
#define GEN_PASS_DEF_CHECKLENGTH
#include "compiler/passes/Passes.h.inc"
} // namespace pipec

using namespace mlir;
using namespace pipec;

namespace {

struct CheckLengthPass : pipec::impl::CheckLengthBase<CheckLengthPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    const Lowered &lowered = getAnalysis<Lowered>();
    if (!lowered.valid || lowered.progress.code != Code::Input)
      return; // what is wrong otherwise the other checks say
    pipe::ProgramOp program = getAnalysis<Streams>().ranks.front().program;
    emitError(placeOf("costs", program.getLoc()))
        << "a step takes longer than " << limits::kTime
        << " ps (about 11 days), the longest step: fewer microbatches, shorter costs or faster links";
    signalPassFailure();
  }
};

} // namespace
