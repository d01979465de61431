// pipe-check-memory: no rank needs more than the limit; if one does, what is live and what would do.
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Text.h"

#include <algorithm>

namespace pipec {
#define GEN_PASS_DEF_CHECKMEMORY
#include "compiler/passes/Passes.h.inc"
} // namespace pipec

using namespace mlir;
using namespace pipec;
using namespace pipec::pipe;

namespace {

struct CheckMemoryPass : pipec::impl::CheckMemoryBase<CheckMemoryPass> {
  explicit CheckMemoryPass(OtherSchedules others = {}) : others(std::move(others)) {}

  void runOnOperation() override {
    markAllAnalysesPreserved();
    const Lowered &lowered = getAnalysis<Lowered>();
    if (!lowered.valid)
      return signalPassFailure();
    const std::vector<Stream> &ranks = getAnalysis<Streams>().ranks;
    if (!lowered.progress.ok())
      return; // What stops has no peak; check-deadlock says why it does.
    // The rank that needs most above its limit speaks for all.
    size_t worst = ranks.size();
    int64_t most = 0;
    for (size_t rank = 0; rank != ranks.size(); ++rank) {
      const int64_t limit = int64_t(ProgramOp(ranks[rank].program).getMemoryLimit().value_or(limits::kBytes));
      const int64_t over = lowered.result.ranks[rank].peak - limit;
      if (over > most) {
        most = over;
        worst = rank;
      }
    }
    if (worst == ranks.size())
      return;
    report(ranks[worst], worst, lowered);
    signalPassFailure();
  }

  void report(const Stream &stream, size_t rank, const Lowered &lowered) {
    ProgramOp program = stream.program;
    if (!program.getMemoryLimit()) {
      program.emitError() << "rank " << rank << " needs more than " << plan::bytesText(limits::kBytes)
                          << ", which is the most";
      return;
    }
    const simulate::RankResult &result = lowered.result.ranks[rank];
    const plan::Program &plan = lowered.variant.programs[rank];
    int64_t rings = 0;
    for (const plan::Ring &ring : plan.rings)
      rings += int64_t(ring.size) * ring.slotBytes;
    int64_t least = 0;
    for (const simulate::RankResult &each : lowered.result.ranks)
      least = std::max(least, each.peak);
    auto error = emitError(placeOf("memory.limit", program.getLoc()))
                 << "rank " << rank << " needs " << plan::bytesText(result.peak) << ", over the limit of "
                 << plan::bytesText(int64_t(*program.getMemoryLimit()));
    if (least > limits::kBytes)
      error << "; no limit would do, the largest is " << plan::bytesText(limits::kBytes);
    else
      error << "; the least limit that would do is " << plan::bytesText(least) << " (" << least << "B)";
    if (result.peakActivation == 0) {
      error.attachNote(program.getLoc()) << "static " << plan::bytesText(plan.staticBytes) << ", workspace "
                                         << plan::bytesText(plan.workspace) << ", transfer buffers "
                                         << plan::bytesText(rings);
      return;
    }
    const auto peak = uint32_t(result.peakIndex);
    error.attachNote(stream.placeOf(peak))
        << "the peak is reached at " << stream.nameOf(peak) << ": " << liveAt(stream, peak) << " live ("
        << plan::bytesText(result.peakActivation) << "), static " << plan::bytesText(plan.staticBytes) << ", workspace "
        << plan::bytesText(plan.workspace) << ", transfer buffers " << plan::bytesText(rings);
    suggest(error);
  }

  /// "8 activations and 8 weight contexts": live ranges that cross the record.
  std::string liveAt(const Stream &stream, uint32_t at) {
    int64_t activations = 0, contexts = 0;
    for (uint32_t i = 0; i <= at; ++i) {
      const plan::Kind kind = stream.kind(stream.records[i]);
      const bool begins = kind == plan::Kind::Forward, whole = kind == plan::Kind::Backward;
      activations += begins;
      contexts += begins;
      if (i == at)
        break;
      activations -= whole || kind == plan::Kind::BackwardInput;
      contexts -= whole || kind == plan::Kind::BackwardWeight;
    }
    return std::to_string(activations) + " activations and " + std::to_string(contexts) + " weight contexts";
  }

  /// Which other schedules would fit, where somebody knows the spec.
  void suggest(InFlightDiagnostic &error) {
    if (!others)
      return;
    if (const std::string fitting = others(); fitting.empty())
      error.attachNote() << "no other schedule of as many stages fits the limit";
    else
      error.attachNote() << "within the limit: schedule " << fitting;
  }

  const OtherSchedules others;
};

} // namespace

std::unique_ptr<Pass> pipec::createCheckMemory(OtherSchedules others) {
  return std::make_unique<CheckMemoryPass>(std::move(others));
}
