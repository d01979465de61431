// pipe-check-deadlock: the programs end, transfers match, every use waits for its definition.
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"

#include "llvm/ADT/StringExtras.h"

namespace pipec {
#define GEN_PASS_DEF_CHECKDEADLOCK
#include "compiler/passes/Passes.h.inc"
} // namespace pipec

using namespace mlir;
using namespace pipec;

namespace {

struct CheckDeadlockPass : pipec::impl::CheckDeadlockBase<CheckDeadlockPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    const Lowered &lowered = getAnalysis<Lowered>();
    if (!lowered.valid)
      return signalPassFailure();
    // The walk first: a cycle explains more than the rule that it breaks.
    for (const Status *status : {&lowered.progress, &lowered.rules}) {
      if (status->ok())
        continue;
      SmallVector<StringRef> lines;
      StringRef(status->message).split(lines, '\n');
      InFlightDiagnostic error = getOperation().emitError(lines.front());
      for (StringRef line : llvm::drop_begin(lines))
        error.attachNote() << line.trim();
      return signalPassFailure();
    }
  }
};

} // namespace
