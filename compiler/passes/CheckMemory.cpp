// pipe-check-memory: checks that no rank needs more than its limit. The error says what is live at the peak, and which
// limit would do.
#include "compiler/passes/Passes.h"
#include "runtime/plan/Limits.h"
#include "runtime/plan/Text.h"
#include "runtime/plan/TransferBuffers.h"

#include <algorithm>
#include <fmt/format.h>

using namespace mlir;

namespace pipec {

namespace {

/// "8 activations and 8 weight contexts": what is live while the instruction `at` runs.
std::string liveAt(const Program &program, uint32_t at) {
  int64_t activations = 0, contexts = 0, inputs = 0;
  const auto again = recomputedStages(program);
  for (uint32_t i = 0; i <= at; ++i) {
    const plan::Operation &operation = program.of(program.instructions[i]);
    const auto count = [&](unsigned memory, int64_t change) {
      activations += (memory & plan::kActivation) != 0 ? change : 0;
      contexts += (memory & plan::kContext) != 0 ? change : 0;
      inputs += (memory & plan::kInput) != 0 ? change : 0;
    };
    const unsigned frees = plan::rowOf(operation.kind).frees, handedOver = plan::kHandedOver;
    count(plan::takes(operation.kind, again.contains(operation.stage)), 1);
    count(frees & handedOver, -1);
    if (i == at)
      break;
    count(frees & ~handedOver, -1);
  }
  return fmt::format("{} activations and {} weight contexts{}", activations, contexts,
                     again.empty() ? "" : fmt::format(" and {} inputs of stages that run again", inputs));
}

/// Adds a note that names the schedules that would fit, if the caller can tell.
void suggest(InFlightDiagnostic &error, const OtherSchedules &others) {
  if (!others)
    return;
  if (const std::string fitting = others(); fitting.empty())
    error.attachNote() << "no other schedule of as many stages fits the limit";
  else
    error.attachNote() << "within the limit: schedule " << fitting;
}

void report(const Program &program, const Lowered &lowered, const OtherSchedules &others) {
  const auto rank = size_t(program.rank);
  if (!program.memoryLimit) {
    mlir::emitError(program.place) << "rank " << rank << " needs more than " << plan::bytesText(limits::kBytes)
                                   << ", which is the most";
    return;
  }
  const simulate::PlaceResult &result = fullestOf(lowered.variant, lowered.result, rank);
  const plan::Program &plan = lowered.variant.programs[rank];
  const auto buffers = plan::Bytes(plan::bufferBytes(lowered.variant, plan));
  // Ranks with the same limit may share one value in the spec. The message names the least that would do for all these.
  int64_t least = 0;
  for (size_t each = 0; each != lowered.result.places.size(); ++each)
    if (lowered.variant.limitOf(lowered.variant.programOf(each)) == *program.memoryLimit)
      least = std::max(least, lowered.result.places[each].peak);
  auto error = emitError(placeOf("memory.limit", program.place))
               << "rank " << rank << " needs " << plan::bytesText(result.peak) << ", over the limit of "
               << plan::bytesText(*program.memoryLimit);
  if (least > limits::kBytes)
    error << "; no limit would do, the largest is " << plan::bytesText(limits::kBytes);
  else
    error << "; the least limit that would do is " << plan::bytesText(least) << " (" << least << "B)";
  if (result.peakActivation == 0) {
    error.attachNote(program.place) << "static " << plan::bytesText(plan.staticBytes) << ", workspace "
                                    << plan::bytesText(plan.workspace) << ", transfer buffers "
                                    << plan::bytesText(buffers);
    return;
  }
  const auto peak = uint32_t(result.peakIndex);
  error.attachNote(program.placeOf(peak))
      << "the peak is reached at " << program.nameOf(peak) << ": " << liveAt(program, peak) << " live ("
      << plan::bytesText(result.peakActivation) << "), static " << plan::bytesText(plan.staticBytes) << ", workspace "
      << plan::bytesText(plan.workspace) << ", transfer buffers " << plan::bytesText(buffers);
  suggest(error, others);
}

} // namespace

LogicalResult checkMemory(const ProgramSet &set, const Lowered &lowered, const OtherSchedules &others) {
  if (!lowered.progress.ok())
    return success(); // Programs that stop have no peak; check-deadlock says why they do.
  // The error is about the rank that needs most above its limit.
  const Program *worst = nullptr;
  int64_t most = 0;
  for (const Program &program : set.programs) {
    const int64_t over = fullestOf(lowered.variant, lowered.result, size_t(program.rank)).peak -
                         program.memoryLimit.value_or(limits::kBytes);
    if (over > most) {
      most = over;
      worst = &program;
    }
  }
  if (!worst)
    return success();
  report(*worst, lowered, others);
  return failure();
}

} // namespace pipec
