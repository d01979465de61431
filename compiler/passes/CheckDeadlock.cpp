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
using namespace pipec::pipe;

namespace {

/// Where the instructions that lines name come from; of lines that name none, nowhere.
llvm::StringMap<std::optional<Location>> placesOf(ArrayRef<StringRef> lines, const Streams &streams) {
  llvm::StringMap<std::optional<Location>> places;
  for (StringRef line : lines)
    places[line] = std::nullopt;
  for (size_t rank = 0; rank != streams.ranks.size(); ++rank)
    for (uint32_t i = 0; i != streams.ranks[rank].records.size(); ++i) {
      const Stream &stream = streams.ranks[rank];
      const Record &record = stream.records[i];
      auto named = places.find(plan::describe(int32_t(rank), stream.of(record), record.microbatch));
      if (named != places.end())
        named->second = stream.placeOf(i);
    }
  return places;
}

/// A communicator with more queues under which the programs end, from that with the fewest; nothing if there is none.
std::optional<Communicator> wouldRunWith(const Streams &streams) {
  for (Communicator communicator : {Communicator::PerPair, Communicator::PerEdge}) {
    simulate::Result result;
    if (simulate::simulate(lower(streams, {.communicator = communicator}), {}, result).ok())
      return communicator;
  }
  return std::nullopt;
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
      auto places = placesOf(lines, getAnalysis<Streams>());
      InFlightDiagnostic error = getOperation().emitError(lines.front());
      for (StringRef line : llvm::drop_begin(lines))
        error.attachNote(places.lookup(line).value_or(getOperation().getLoc())) << line;
      if (status == &lowered.progress)
        if (std::optional<Communicator> other = wouldRunWith(getAnalysis<Streams>()))
          error.attachNote(getOperation().getLoc())
              << "it would end with communicator " << stringifyCommunicator(*other);
      return signalPassFailure();
    }
  }
};

} // namespace
