#include "runtime/simulate/Simulate.h"

#include "runtime/simulate/Walk.h"

#include <algorithm>

namespace pipec::simulate {

using plan::Time;

namespace {

void finish(const plan::Variant &variant, Result &result) {
  Time first = -1;
  Time last = 0;
  for (size_t rank = 0; rank != result.ranks.size(); ++rank) {
    const plan::Program &program = variant.programs[rank];
    RankResult &own = result.ranks[rank];
    own.peak = own.peakActivation + program.staticBytes + program.workspace;
    for (const plan::Ring &ring : program.rings)
      own.peak += plan::Bytes(ring.size) * ring.slotBytes;
    if (own.firstStart.empty() || own.firstStart.front() < 0)
      continue;
    first = first < 0 ? own.firstStart.front() : std::min(first, own.firstStart.front());
    last = std::max(last, own.lastEnd.front());
  }
  result.makespan = first < 0 ? 0 : last - first;
}

Time ceilDivide(Time value, int64_t by) { return value / by + (value % by != 0 ? 1 : 0); }

} // namespace

Status simulate(const plan::Variant &variant, const Options &options, Result &result) {
  Walk walk(variant, options);
  Status status = walk.advance(options.steps);
  finish(variant, walk.result);
  result = std::move(walk.result);
  return status;
}

Status span(const plan::Variant &variant, Time &span, Result &result) {
  // Steps repeat after a few where one cycle of causes dominates; where two are nearly equal it may take long, and the
  // largest mean advance of any rank over the later half, which is never below the span, serves.
  constexpr int64_t kSteps = 64;
  Options options;
  Walk walk(variant, options);
  std::vector<uint64_t> signatures;
  Status status;
  span = -1;
  while (span < 0 && int64_t(signatures.size()) != kSteps) {
    int64_t step = int64_t(signatures.size());
    status = walk.advance(step + 1);
    if (!status.ok())
      break;
    signatures.push_back(walk.signature(step));
    for (int64_t back = step; back-- != 0 && span < 0;)
      if (signatures[size_t(back)] == signatures.back())
        span = ceilDivide(walk.reference(step) - walk.reference(back), step - back);
  }
  finish(variant, walk.result);
  result = std::move(walk.result);
  if (!status.ok() || span >= 0)
    return status;
  for (const RankResult &rank : result.ranks)
    span = std::max(span, ceilDivide(rank.lastEnd[kSteps - 1] - rank.lastEnd[kSteps / 2 - 1], kSteps / 2));
  return status;
}

double bubbleRate(const Result &result, Time time) {
  double busy = 0;
  for (const RankResult &rank : result.ranks)
    busy += double(rank.busy);
  return time == 0 ? 0 : 1 - busy / (double(result.ranks.size()) * double(time));
}

} // namespace pipec::simulate
