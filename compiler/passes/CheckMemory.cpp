// pipe-check-memory: no rank needs more than the limit; if one does, what is live and what would do.
#include "compiler/passes/Lowered.h"
#include "compiler/passes/Passes.h"
#include "compiler/schedule/Catalogue.h"
#include "compiler/schedule/Evaluate.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Text.h"

#include <algorithm>
#include <map>

namespace pipec {
#define GEN_PASS_DEF_CHECKMEMORY
#include "compiler/passes/Passes.h.inc"
} // namespace pipec

using namespace mlir;
using namespace pipec;
using namespace pipec::pipe;

namespace {

struct CheckMemoryPass : pipec::impl::CheckMemoryBase<CheckMemoryPass> {
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
      auto limit = ProgramOp(ranks[rank].program).getMemoryLimit();
      int64_t over = limit ? lowered.result.ranks[rank].peak - int64_t(*limit) : 0;
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
    suggest(error, int64_t(*program.getMemoryLimit()));
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

  /// Which schedules of the catalogue would fit: their exact peaks, and one slot for each transfer buffer.
  void suggest(InFlightDiagnostic &error, int64_t limit) {
    auto pipelines = getOperation().getOps<PipelineOp>();
    if (pipelines.empty())
      return;
    schedule::Problem problem = problemOf(*pipelines.begin());
    // Of a rank, by peer: the largest tensor, once for each direction and end.
    std::vector<std::map<int32_t, int64_t>> buffers(size_t(problem.ranks));
    for (size_t s = 0; s < problem.stages.size(); ++s)
      if (problem.after(int32_t(s)) >= 0 && problem.rankOf[s] != problem.rankOf[s + 1])
        for (auto [rank, peer] : {std::pair(problem.rankOf[s], problem.rankOf[s + 1]),
                                  std::pair(problem.rankOf[s + 1], problem.rankOf[s])}) {
          int64_t &bytes = buffers[size_t(rank)][peer];
          bytes = std::max(bytes, 2 * problem.stages[s].boundary);
        }
    std::string fitting;
    for (const schedule::Entry &entry : schedule::catalogue()) {
      if (!schedule::check(entry, problem, {}).empty())
        continue;
      auto evaluation = schedule::evaluate(problem, schedule::wordsOf(entry, problem, {}), {.withSpan = false});
      bool fits = evaluation.complete;
      for (size_t rank = 0; fits && rank != size_t(problem.ranks); ++rank) {
        __int128 need = __int128(evaluation.peak[rank]) + problem.staticBytes[rank] + problem.workspace[rank];
        for (auto [peer, bytes] : buffers[rank])
          need += bytes;
        fits = need <= limit;
      }
      if (fits)
        fitting += (fitting.empty() ? "" : ", ") + std::string(entry.name);
    }
    if (fitting.empty())
      error.attachNote() << "no schedule of the catalogue fits the limit with this placement";
    else
      error.attachNote() << "within the limit: schedule " << fitting;
  }
};

} // namespace
