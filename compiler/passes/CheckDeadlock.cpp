// pipe-check-deadlock: the programs end, transfers match, every use waits for its definition.
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"

#include "runtime/plan/Disassemble.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

namespace pipec {
#define GEN_PASS_DEF_CHECKDEADLOCK
#include "compiler/passes/Passes.h.inc"
} // namespace pipec

using namespace mlir;
using namespace pipec;

namespace {

/// Lines that name instructions, and the op behind each; lines that name none are left out.
llvm::StringMap<Operation *> opsOf(ArrayRef<StringRef> lines, const Lowered &lowered, const Streams &streams) {
  llvm::StringMap<Operation *> ops;
  for (StringRef line : lines)
    ops[line] = nullptr;
  for (const plan::Program &program : lowered.variant.programs)
    for (size_t i = 0; i != program.instructions.size(); ++i) {
      const plan::Instruction &instruction = program.instructions[i];
      auto named =
          ops.find(plan::describe(program.rank, program.operations[instruction.operation], instruction.microbatch));
      if (named != ops.end())
        named->second = streams.ranks[size_t(program.rank)].records[i].op;
    }
  return ops;
}

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
      for (StringRef &line : lines)
        line = line.trim();
      auto ops = opsOf(lines, lowered, getAnalysis<Streams>());
      InFlightDiagnostic error = getOperation().emitError(lines.front());
      for (StringRef line : llvm::drop_begin(lines)) {
        Operation *op = ops.lookup(line);
        error.attachNote(op ? op->getLoc() : getOperation().getLoc()) << line;
      }
      return signalPassFailure();
    }
  }
};

} // namespace
