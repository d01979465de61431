// Modulo scheduling (Rau and Glaeser, 1981). The resulting building block is that of arXiv 2405.15362, section 3, with
// one difference: slots there are all equal, and here each slot is as long as its pass.
#include "compiler/schedule/construct/Modulo.h"

#include "compiler/schedule/model/Circle.h"
#include "runtime/plan/Limits.h"

#include <algorithm>

namespace pipec::schedule {

namespace {

/// Finds and reserves the earliest start from `ready` on at which a rank is free for `length` in every interval. None:
/// no room.
std::optional<Time> placeOn(Circle &rank, Time ready, Time length, Time interval) {
  const std::optional<Time> start = length > interval ? std::nullopt : rank.earliest(ready, length);
  if (start)
    rank.add(*start, length);
  return start;
}

} // namespace

std::optional<Block> moduloBlock(const Problem &problem, const ModuloOptions &options) {
  const auto count = static_cast<int32_t>(problem.stages.size());
  const bool fused = problem.backward == BackwardMode::Fused;
  const Time interval = options.interval;
  std::vector<Circle> ranks(size_t(problem.ranks), Circle(interval));
  const auto extra = [&](int32_t from, int32_t to, Time time) {
    return problem.handOver(from, to) + (problem.rankOf[size_t(from)] == problem.rankOf[size_t(to)] ? 0 : time);
  };
  // A pass that takes no time still gets a slot, so that all starts differ.
  const auto atLeastOne = [](Time time) { return std::max<Time>(time, 1); };
  Block block;
  block.interval = interval;
  block.backwardInput.resize(size_t(count));
  if (!fused)
    block.backwardWeight.resize(size_t(count));
  Time ready = 0;
  const auto place = [&](int32_t s, Time length) {
    const std::optional<Time> start = placeOn(ranks[size_t(problem.rankOf[size_t(s)])], ready, length, interval);
    return start && *start <= limits::kTime ? start : std::nullopt;
  };
  for (int32_t s = 0; s < count; ++s) {
    const Time length = atLeastOne(problem.stages[size_t(s)].forward);
    const std::optional<Time> start = place(s, length);
    if (!start)
      return std::nullopt;
    block.forward.push_back(*start);
    ready = *start + length + (s + 1 < count ? extra(s, s + 1, options.extraDown) : 0);
  }
  for (int32_t s = count; s-- > 0;) {
    const Stage &stage = problem.stages[size_t(s)];
    const Time backward = atLeastOne(problem.backwardTime(stage));
    const std::optional<Time> start = place(s, backward);
    if (!start)
      return std::nullopt;
    block.backwardInput[size_t(s)] = *start;
    ready = *start + backward + (s > 0 ? extra(s, s - 1, options.extraUp) : 0);
  }
  if (fused)
    return block;
  for (int32_t s = count; s-- > 0;) {
    const Stage &stage = problem.stages[size_t(s)];
    ready = block.backwardInput[size_t(s)] + atLeastOne(stage.backwardInput);
    const std::optional<Time> start = place(s, atLeastOne(stage.backwardWeight));
    if (!start)
      return std::nullopt;
    block.backwardWeight[size_t(s)] = *start;
  }
  return block;
}

std::vector<__int128> steadyPeaks(const Problem &problem, const Block &block) {
  const bool fused = problem.backward == BackwardMode::Fused;
  const std::vector<int64_t> &end = fused ? block.backwardInput : block.backwardWeight;
  // How many of the passes that start at `first`, `first + interval` and so on have started by `slot`, plus a constant.
  // The constant cancels when two such counts are subtracted.
  const auto begun = [&](int64_t slot, int64_t first) {
    const int64_t distance = slot - first;
    return distance >= 0 ? distance / block.interval : -((-distance + block.interval - 1) / block.interval);
  };
  std::vector<__int128> peaks;
  for (const std::vector<int32_t> &mine : problem.stagesByRank()) {
    __int128 peak = 0;
    for (const int32_t at : mine) {
      const int64_t slot = block.forward[size_t(at)];
      __int128 live = 0;
      for (const int32_t s : mine) {
        const auto i = static_cast<size_t>(s);
        const int64_t forwards = begun(slot, block.forward[i]);
        live += __int128(problem.stages[i].activation) * (forwards - begun(slot, block.backwardInput[i]));
        live += __int128(problem.stages[i].context) * (forwards - begun(slot, end[i]));
      }
      peak = std::max(peak, live);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

} // namespace pipec::schedule
