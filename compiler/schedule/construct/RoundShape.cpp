// A pass's direction follows from the ranks of its neighbours. A round has a number of beats (Rounds.cpp) and of
// microbatches.
#include "compiler/schedule/construct/RoundShape.h"

#include "runtime/plan/Limits.h"

#include <array>
#include <tuple>

namespace pipec::schedule {

RoundShape::RoundShape(const Problem &problem)
    : problem(problem), fused(problem.backward == BackwardMode::Fused),
      count(static_cast<int32_t>(problem.stages.size())), stagesByRank(problem.stagesByRank()) {
  bool loops = true;
  for (int32_t s = 0; s < count; ++s)
    loops &= problem.rankOf[size_t(s)] == s % problem.ranks;
  const auto goesDown = [&](int32_t from, int32_t to) {
    return loops ? to > from : problem.rankOf[size_t(to)] > problem.rankOf[size_t(from)];
  };
  const auto isSame = [&](int32_t s, int32_t t) { return problem.rankOf[size_t(s)] == problem.rankOf[size_t(t)]; };
  for (int32_t s = 0; s < count; ++s) {
    // A pass has the direction from which its data comes. If the data comes from the same rank, the pass has the
    // direction in which it sends its result.
    const bool first = s == 0 || isSame(s - 1, s), last = s + 1 == count || isSame(s, s + 1);
    forwardIsDown.push_back(!first ? goesDown(s - 1, s) : s + 1 < count ? goesDown(s, s + 1) : true);
    backwardIsDown.push_back(!last ? goesDown(s + 1, s) : s > 0 ? goesDown(s, s - 1) : false);
  }
  std::vector<std::array<int32_t, 2>> passes(size_t(problem.ranks), std::array<int32_t, 2>{});
  std::vector<Time> works(size_t(problem.ranks), 0);
  for (int32_t s = 0; s < count; ++s) {
    const Stage &stage = problem.stages[size_t(s)];
    const auto r = size_t(problem.rankOf[size_t(s)]);
    works[r] += forward(s) + backward(s) + problem.weightTime(stage);
    weight = std::max(weight, problem.weightTime(stage));
    ++passes[r][forwardIsDown[size_t(s)]];
    ++passes[r][backwardIsDown[size_t(s)]];
    note(forwardIsDown[size_t(s)], forward(s), s + 1 < count ? problem.handOver(s, s + 1) : 0);
    note(backwardIsDown[size_t(s)], backward(s), s > 0 ? problem.handOver(s, s - 1) : 0);
  }
  work = *std::max_element(works.begin(), works.end());
  for (const auto &[one, other] : passes)
    mostPasses = std::max({mostPasses, one, other});
}

void RoundShape::note(bool isDown, Time length, Time handOver) {
  (isDown ? down : up) = std::max(isDown ? down : up, length + handOver);
  (isDown ? longestDown : longestUp) = std::max(isDown ? longestDown : longestUp, length);
}

std::vector<RoundSize> sizesOf(const RoundShape &shape, const RoundOptions &options) {
  constexpr int32_t kSlowest = 8; // most beats, as a multiple of the passes
  std::vector<RoundSize> sizes;
  const Time least =
      std::max(shape.down + shape.up, shape.longestDown + shape.longestUp + shape.weight / 100 * options.room);
  const int32_t microbatches = shape.problem.microbatches, most = std::clamp(microbatches / 2, 1, options.most);
  const __int128 rounds = std::max(2 * __int128(shape.count), __int128(microbatches)) + 2;
  for (int32_t k = 1; k <= most; ++k)
    for (int32_t beats = k * shape.mostPasses; beats <= kSlowest * k * shape.mostPasses; ++beats) {
      const __int128 work = __int128(shape.work) * k;
      const __int128 beat = std::max<__int128>(least, (work + beats - 1) / beats);
      if (beat * beats * rounds <= limits::kTime)
        sizes.push_back({double(beat) * beats / k, Time(beat), beats, k});
    }
  std::sort(sizes.begin(), sizes.end(), [](const RoundSize &a, const RoundSize &b) {
    return std::tie(a.each, a.microbatches, a.beats) < std::tie(b.each, b.microbatches, b.beats);
  });
  return sizes;
}

} // namespace pipec::schedule
