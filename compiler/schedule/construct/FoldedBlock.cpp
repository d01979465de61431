// A problem of V placement in slots, and the block of the streams' slots.
#include "compiler/schedule/construct/FoldedBlock.h"

#include "compiler/schedule/construct/FoldedStreams.h"
#include "compiler/schedule/construct/Modulo.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace pipec::schedule {

namespace {

/// Passes in slots, of which so many are as long as the longest.
class Ruler {
public:
  Ruler(const Problem &problem, int32_t slots) : slots(slots) {
    for (const Stage &stage : problem.stages)
      longest = std::max({longest, stage.forward, problem.backwardTime(stage)});
  }
  int32_t slotsOf(Time time) const {
    return int32_t(std::min<__int128>((__int128(2) * time * slots + longest) / (__int128(2) * longest), kMost));
  }
  int32_t passOf(Time time) const { return std::max(slotsOf(time), 1); }
  /// By how much of a slot a pass is longer or shorter.
  double errorOf(Time time) const { return std::abs(double(time) * slots / double(longest) - passOf(time)); }

private:
  static constexpr int32_t kMost = 1 << 20;
  int32_t slots;
  Time longest = 1;
};

/// The fewest slots for the longest pass at which all passes' lengths are nearest to whole slots.
int32_t slotsOf(const Problem &problem) {
  constexpr int32_t kMostSlots = 4;
  int32_t best = 1;
  double least = std::numeric_limits<double>::max();
  for (int32_t slots = 1; slots <= kMostSlots; ++slots) {
    const Ruler ruler(problem, slots);
    double most = 0;
    for (const Stage &stage : problem.stages)
      for (const Time time : {stage.forward, problem.backwardTime(stage),
                              problem.backward == BackwardMode::Fused ? stage.forward : stage.backwardWeight})
        most = std::max(most, ruler.errorOf(time) / slots);
    if (most < least * 0.99) {
      least = most;
      best = slots;
    }
  }
  return best;
}

Fold foldOf(const Problem &problem, int32_t slots) {
  const Ruler ruler(problem, slots);
  const auto p = size_t(problem.ranks);
  Fold fold;
  for (size_t r = 0; r < p; ++r) {
    const auto down = int32_t(r), up = int32_t(2 * p - 1 - r);
    const Stage &first = problem.stages[size_t(down)], &second = problem.stages[size_t(up)];
    Level level;
    level.length = {ruler.passOf(first.forward), ruler.passOf(second.forward),
                    ruler.passOf(problem.backwardTime(second)), ruler.passOf(problem.backwardTime(first))};
    if (problem.backward == BackwardMode::Split)
      level.weight = {ruler.passOf(first.backwardWeight), ruler.passOf(second.backwardWeight)};
    if (r > 0) {
      const std::array<int32_t, 4> &before = fold.levels.back().length;
      level.hop = {before[kOut] + ruler.slotsOf(problem.handOver(down - 1, down)),
                   level.length[kBack] + ruler.slotsOf(problem.handOver(up, up + 1)),
                   before[kAgain] + ruler.slotsOf(problem.handOver(up + 1, up)),
                   level.length[kHome] + ruler.slotsOf(problem.handOver(down, down - 1))};
    }
    fold.work = std::max(fold.work,
                         std::accumulate(level.length.begin(), level.length.end(), level.weight[0] + level.weight[1]));
    fold.levels.push_back(level);
  }
  return fold;
}

/// Whether memory alone makes the interval longer than the work: what a microbatch holds on a rank, for as long as it
/// must.
bool isShort(const Problem &problem, const Capacities &capacities, const Fold &fold) {
  std::vector<__int128> area(fold.levels.size(), 0);
  __int128 trip = 0; // from F of a stage to the start of its B
  const auto add = [&](size_t r, const Stage &stage, int32_t backward, int32_t weight) {
    const __int128 held = trip + backward;
    area[r] += stage.activation * held + stage.context * (held + weight);
  };
  for (size_t r = 0; r < fold.levels.size(); ++r) {
    const Level &level = fold.levels[r];
    trip += r == 0 ? level.length[kBack] : level.hop[kBack] + level.hop[kAgain];
    add(r, problem.stages[problem.stages.size() - 1 - r], level.length[kAgain], level.weight[1]);
  }
  trip += fold.levels.back().length[kOut] + fold.levels.back().length[kAgain];
  for (size_t r = fold.levels.size(); r-- > 0;) {
    const Level &level = fold.levels[r];
    add(r, problem.stages[r], level.length[kHome], level.weight[0]);
    if (area[r] > __int128(capacities[size_t(problem.rankOf[r])]) * fold.work)
      return true;
    trip += level.hop[kOut] + level.hop[kHome];
  }
  return false;
}

Block blockOf(const Problem &problem, const std::vector<Slots> &slots, int32_t interval) {
  const size_t count = problem.stages.size();
  Block block;
  block.interval = interval;
  block.forward.resize(count);
  block.backwardInput.resize(count);
  if (problem.backward == BackwardMode::Split)
    block.backwardWeight.resize(count);
  for (size_t r = 0; r < slots.size(); ++r)
    for (const size_t chunk : {0, 1}) {
      const size_t stage = chunk == 0 ? r : count - 1 - r;
      block.forward[stage] = slots[r].at[chunk];
      block.backwardInput[stage] = slots[r].at[chunk == 0 ? kHome : kAgain];
      if (problem.backward == BackwardMode::Split)
        block.backwardWeight[stage] = slots[r].weight[chunk];
    }
  return block;
}

bool fits(const Problem &problem, const Block &block, const Capacities &capacities) {
  const std::vector<__int128> peaks = steadyPeaks(problem, block);
  for (size_t r = 0; r < peaks.size(); ++r)
    if (peaks[r] > capacities[r])
      return false;
  return check(problem, block).empty();
}

} // namespace

bool isFolded(const Problem &problem) {
  const size_t count = problem.stages.size();
  if (problem.copies > 1 || problem.slices > 1 || problem.backwardGroup > 1 || count != 2 * size_t(problem.ranks))
    return false;
  for (size_t s = 0; s < count; ++s)
    if (problem.rankOf[s] != problem.rankOf[count - 1 - s])
      return false;
  return true;
}

std::optional<Block> foldedBlock(const Problem &problem, const Capacities &capacities) {
  constexpr int64_t kCells = 1 << 19; // of all tables together, each about 60 nanoseconds
  const Fold fold = foldOf(problem, slotsOf(problem));
  const int64_t n = fold.work;
  if (n * n > kCells || problem.ranks * n * n * n > kCells || isShort(problem, capacities, fold))
    return std::nullopt;
  const std::optional<std::vector<Slots>> slots = pass(fold, fold.work);
  if (!slots)
    return std::nullopt;
  Block block = blockOf(problem, *slots, fold.work);
  return fits(problem, block, capacities) ? std::optional(std::move(block)) : std::nullopt;
}

} // namespace pipec::schedule
