#include "compiler/widths/PlaceSums.h"

#include <algorithm>

namespace pipec::widths {
namespace {

using plan::Time;

class Search {
public:
  Search(const spec::Spec &spec, const burst::Problem &problem, mlir::Location place, int64_t &left)
      : spec(spec), problem(problem), place(place), left(left) {}

  Placed run(std::vector<Stage> stages) {
    const size_t count = stages.size();
    best = {std::move(stages), sumsAtEnd(count)};
    best.span = spanOf(best.stages, best.sums);
    if (spec.burst->sync == spec::Sync::End)
      return std::move(best);
    take(best.stages, Sums(count));
    while (cutOnce())
      ;
    for (size_t stage = best.stages.size(); stage-- != 0;)
      for (size_t behind = 0; behind <= stage && left > 0; ++behind) {
        Sums other = best.sums;
        other[stage] = behind;
        take(best.stages, std::move(other));
      }
    return std::move(best);
  }

private:
  Time spanOf(const std::vector<Stage> &stages, const Sums &sums) {
    const ProgramSet set = programsOf(spec, problem, stages, sums, place);
    left -= int64_t(set.instructions());
    return widths::spanOf(set);
  }
  bool take(std::vector<Stage> stages, Sums sums) {
    const Time span = spanOf(stages, sums);
    if (span >= best.span)
      return false;
    best = {std::move(stages), std::move(sums), span};
    return true;
  }

  /// Where it is worth most; false: nowhere, or there is no more time.
  bool cutOnce() {
    const std::vector<Stage> whole = best.stages;
    bool found = false;
    for (size_t stage = 0; stage != whole.size(); ++stage)
      for (size_t layer = whole[stage].first + 1; layer < whole[stage].end && left > 0; ++layer)
        if (sums(whole[stage].first, layer) && sums(layer, whole[stage].end) && whole[stage].width > 1) {
          std::vector<Stage> stages = whole;
          stages[stage].end = layer;
          stages.insert(stages.begin() + ptrdiff_t(stage) + 1, {layer, whole[stage].end, whole[stage].width});
          Sums behind(stages.size());
          found |= take(std::move(stages), std::move(behind));
        }
    return found;
  }
  /// Whether layers have gradients.
  bool sums(size_t first, size_t end) const {
    return std::any_of(problem.layers.begin() + ptrdiff_t(first), problem.layers.begin() + ptrdiff_t(end),
                       [](const burst::Layer &layer) { return layer.gradients > 0; });
  }

  const spec::Spec &spec;
  const burst::Problem &problem;
  mlir::Location place;
  int64_t &left;
  Placed best;
};

} // namespace

Placed placedSums(const spec::Spec &spec, const burst::Problem &problem, const burst::Widths &widths,
                  mlir::Location place, int64_t &left) {
  return Search(spec, problem, place, left).run(stagesOf(widths));
}

Time leastOf(const spec::Spec &spec, const burst::Problem &problem, const burst::Widths &widths) {
  const std::vector<const spec::Layer *> layers = layersOf(spec);
  const std::vector<Stage> stages = stagesOf(widths);
  __int128 forward = 0, backward = 0; // on rank 0, with reshards
  std::optional<__int128> firstSum;   // backwards up to that of the last layer whose gradients are summed
  for (size_t layer = widths.size(); layer-- != 0;) {
    const burst::Layer &own = problem.layers[layer];
    const int64_t samples = burst::localBatch(problem.batch, widths[layer]);
    forward += burst::timeOf(own.forward, samples);
    backward += burst::timeOf(own.backward, samples);
    if (!firstSum && widths[layer] > 1 && own.gradients > 0)
      firstSum = backward;
    if (layer != 0 && widths[layer] != widths[layer - 1])
      for (__int128 *of : {&forward, &backward})
        *of += burst::reshardTime(problem, problem.layers[layer - 1], widths[layer - 1], widths[layer]);
  }
  __int128 updates = spec.layers->beside[plan::Figure::Optimizer][0], behind = problem.layers.front().gradients,
           all = 0;
  const size_t last = spec.burst->sync == spec::Sync::End ? stages.front().end : 1;
  for (size_t layer = 0; layer != last; ++layer)
    updates += layers[layer]->figures[plan::Figure::Optimizer];
  for (const Stage &stage : stages) {
    __int128 gradients = 0;
    for (size_t layer = stage.first; layer != stage.end; ++layer)
      gradients += problem.layers[layer].gradients;
    const auto bytes = plan::Bytes(std::min<__int128>(gradients, limits::kBytes));
    all += burst::allReduceTime(problem, bytes, stage.width);
    if (stage.first == 0 && spec.burst->sync == spec::Sync::End)
      behind = bytes;
  }
  const __int128 chain =
      forward + backward + burst::allReduceTime(problem, plan::Bytes(behind), widths.front()) + updates;
  // A stage that is cut has as many sums, each rounded by itself.
  const __int128 rounded = __int128(widths.size()) * 2 * *std::ranges::max_element(widths);
  const __int128 exchange =
      firstSum ? forward + *firstSum + all - rounded + spec.layers->beside[plan::Figure::Optimizer][0] : 0;
  return Time(std::min<__int128>(std::max(chain, exchange), limits::kTime));
}

} // namespace pipec::widths
