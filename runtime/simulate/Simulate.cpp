#include "runtime/simulate/Simulate.h"

#include "runtime/plan/Limits.h"
#include "runtime/plan/LiveMemory.h"
#include "runtime/plan/TransferBuffers.h"
#include "runtime/simulate/Pieces.h"
#include "runtime/simulate/Steps.h"
#include "runtime/simulate/Walk.h"

#include <algorithm>

namespace pipec::simulate {

using plan::Time;

namespace {

/// With a weights queue, the peak is the most that the waits allow in any timing, not what this run held.
void allowedPeak(const plan::Program &program, PlaceResult &place) {
  auto isWeights = [](const plan::Queue &queue) { return queue.priority == plan::Priority::Weights; };
  auto weights = std::find_if(program.queues.begin(), program.queues.end(), isWeights);
  if (weights == program.queues.end())
    return;
  const auto weightsQueue = uint32_t(weights - program.queues.begin());
  plan::LiveMemory memory;
  int64_t index = 0;
  for (plan::Cursor cursor(program); !cursor.done(); cursor.next(), ++index) {
    plan::Step step = cursor.at();
    const plan::Instruction &instruction = *step.instruction;
    for (uint32_t w = instruction.firstWait; instruction.queue == 0 && w != instruction.firstWait + instruction.waits;
         ++w)
      if (const plan::Wait &wait = program.waits[w]; wait.queue == weightsQueue && !wait.previousStep)
        memory.know(wait.base + wait.stride * step.trip);
    if (!plan::isCompute(step.operation->kind))
      continue;
    if (memory.hold(*step.operation))
      place.peakIndex = index;
    memory.release(*step.operation, instruction.queue == weightsQueue);
  }
  place.peakActivation = saturated(memory.peak());
}

void finish(const plan::Variant &variant, Result &result) {
  Time first = -1;
  Time last = 0;
  for (size_t place = 0; place != result.places.size(); ++place) {
    const plan::Program &program = variant.programOf(place);
    PlaceResult &own = result.places[place];
    allowedPeak(program, own);
    const plan::Own *its = variant.ownOf(place);
    __int128 peak = __int128(own.peakActivation) + (its ? its->staticBytes : program.staticBytes) +
                    (its ? its->workspace : program.workspace);
    peak += plan::bufferBytes(variant, program) + variant.jobMemory(program);
    own.peak = saturated(peak);
    if (own.firstStart.empty() || own.firstStart.front() < 0)
      continue;
    first = first < 0 ? own.firstStart.front() : std::min(first, own.firstStart.front());
    last = std::max({last, own.lastEnd.front(), own.exchanged});
  }
  result.makespan = first < 0 ? 0 : last - first;
}

Status checkLength(const Result &result) {
  if (result.makespan > limits::kTime)
    return Status::check("a step takes longer than 10^18 ps (about 11 days), which is the most");
  return {};
}

Status advanceUntilRepeats(const plan::Variant &variant, Walk &walk, int64_t steps) {
  if (overlaps(variant)) // a step is complete only after the next has begun
    return walk.advance(steps);
  uint64_t before = 0;
  for (int64_t step = 0; step != steps; ++step) {
    if (Status status = walk.advance(step + 1); !status.ok())
      return status;
    const uint64_t now = walk.signature(step);
    walk.result.repeats = step != 0 && now == before;
    if (walk.result.repeats)
      break;
    before = now;
  }
  return {};
}

Time ceilDivide(Time value, int64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

} // namespace

void addJobMemory(const plan::Variant &variant, Result &result) {
  for (size_t place = 0; place != result.places.size(); ++place) {
    plan::Bytes &peak = result.places[place].peak;
    peak = saturated(__int128(peak) + variant.jobMemory(variant.programOf(place)));
  }
}

Status simulate(const plan::Variant &variant, const Options &options, Result &result) {
  Walk walk(variant, options);
  Status status =
      options.untilRepeats ? advanceUntilRepeats(variant, walk, options.steps) : walk.advance(options.steps);
  finish(variant, walk.result);
  walk.conclude();
  result = std::move(walk.result);
  return status.ok() ? checkLength(result) : status;
}

Status prove(const plan::Variant &variant, Result &result) {
  Status status = simulate(variant, {}, result);
  if (status.ok() && result.makespan != variant.certificate.makespan)
    return Status::check("P37: the certificate's makespan is " + std::to_string(variant.certificate.makespan) +
                         " ps, the walk takes " + std::to_string(result.makespan) + " ps");
  return status.ok() ? proveDelay(variant) : status;
}

/// If updates run beside the next step's forwards, a step is complete only once the next one has ended; `result` is of
/// one step alone.
static Status spanOfCrossing(const plan::Variant &variant, Time &span, Result &result, const Options &options) {
  constexpr int64_t kSteps = 64;
  Options one = options;
  one.steps = 1;
  if (Status status = simulate(variant, one, result); !status.ok()) {
    if (result.makespan > limits::kTime)
      status.code = Code::Input;
    return status;
  }
  Walk walk(variant, options);
  std::vector<uint64_t> signatures;
  std::vector<Time> ends; // ends of the complete steps
  const int64_t most = std::min(kSteps, 4 * limits::kTime / std::max<Time>(result.makespan, 1) + 1);
  for (int64_t step = 0; step != most; ++step) {
    if (Status status = walk.advance(step + 2, true); !status.ok())
      return status;
    signatures.push_back(walk.signature(step));
    ends.push_back(walk.reference(step));
    for (int64_t back = step; back-- != 0;)
      if (signatures[size_t(back)] == signatures.back()) {
        span = ceilDivide(ends[size_t(step)] - ends[size_t(back)], step - back);
        return {};
      }
  }
  const size_t half = ends.size() / 2;
  span = ceilDivide(ends.back() - ends[half], std::max<int64_t>(int64_t(ends.size() - 1 - half), 1));
  return {};
}

Status span(const plan::Variant &variant, Time &span, Result &result, const Options &options) {
  // Steps repeat after a few steps if one cycle of causes dominates. If two cycles are nearly equal, this may take
  // long; then the largest mean advance of any process over the later half is used.
  constexpr int64_t kSteps = 64;
  Walk walk(variant, options);
  if (overlaps(variant))
    return spanOfCrossing(variant, span, result, options);
  std::vector<uint64_t> signatures;
  Status status;
  span = -1;
  int64_t most = kSteps;
  while (span < 0 && int64_t(signatures.size()) != most) {
    int64_t step = int64_t(signatures.size());
    status = walk.advance(step + 1);
    if (!status.ok())
      break;
    if (step == 0) {
      finish(variant, walk.result);
      status = checkLength(walk.result);
      if (!status.ok())
        break;
      // A later step takes no longer than the first: simulates as many as fit in 64 bits.
      most = std::min(kSteps, 4 * limits::kTime / std::max<Time>(walk.result.makespan, 1) + 1);
    }
    signatures.push_back(walk.signature(step));
    for (int64_t back = step; back-- != 0 && span < 0;)
      if (signatures[size_t(back)] == signatures.back())
        span = ceilDivide(walk.reference(step) - walk.reference(back), step - back);
  }
  finish(variant, walk.result);
  result = std::move(walk.result);
  if (walk.isTooLong() || result.makespan > limits::kTime)
    status.code = Code::Input;
  if (!status.ok() || span >= 0)
    return status;
  int64_t half = std::max<int64_t>(most / 2, 1);
  for (const PlaceResult &place : result.places)
    span = std::max(
        span,
        ceilDivide(place.lastEnd[size_t(most - 1)] - (most > half ? place.lastEnd[size_t(most - 1 - half)] : 0), half));
  return status;
}

Status exposed(const plan::Variant &variant, Time &time) {
  time = 0;
  if (variant.layers.empty() && variant.shared.empty())
    return {};
  plan::Variant instant = variant;
  for (plan::Program &program : instant.programs)
    for (plan::Operation &operation : program.operations)
      if (plan::isOfLayers(operation))
        operation.cost = 0;
  Result ignored;
  Status status = span(instant, time, ignored);
  time = variant.certificate.span - time;
  return status;
}

double bubbleRate(const Result &result, Time time) {
  double busy = 0;
  for (const PlaceResult &place : result.places)
    busy += double(place.busy);
  return time == 0 ? 0 : 1 - busy / (double(result.places.size()) * double(time));
}

} // namespace pipec::simulate
