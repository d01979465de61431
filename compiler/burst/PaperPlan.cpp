#include "compiler/burst/PaperPlan.h"

#include <algorithm>

namespace pipec::burst {
namespace {

/// The best plan of the layers so far whose last one has some width.
struct Best {
  Time time = 0;
  __int128 amplified = 0; // amplification × compute on one rank; of a layer that has none, 1
  bool summed = false;    // the last stage has gradients so far
  size_t before = 0;      // width of the layer before
};

/// One step of the recurrence after the other.
class Recurrence {
public:
  Recurrence(const Costs &costs, int64_t limit) : costs(costs), limit(limit) {}

  std::vector<size_t> run() {
    std::vector<size_t> plan(costs.layers());
    if (plan.empty())
      return plan;
    for (size_t layer = 0; layer != plan.size(); ++layer) {
      rows.emplace_back();
      for (size_t width = 0; width != costs.widths().size(); ++width)
        rows.back().push_back(layer == 0 ? begin(width) : best(layer, width));
    }
    const auto sooner = [](const Best &one, const Best &other) { return one.time < other.time; };
    plan.back() = size_t(std::min_element(rows.back().begin(), rows.back().end(), sooner) - rows.back().begin());
    for (size_t layer = plan.size() - 1; layer != 0; --layer)
      plan[layer - 1] = rows[layer][plan[layer]].before;
    return plan;
  }

private:
  bool isAmplified(size_t layer) const { return costs.compute(layer, 0) > kLeastAmplified; }

  /// What a layer adds to a plan, and how far that amplifies it.
  Best with(size_t layer, size_t width, Best plan, Time reshards) const {
    const int32_t ranks = costs.widths()[width];
    const Bytes bytes = costs.problem().layers[layer].gradients;
    const Time compute = costs.compute(layer, width), wire = allReduceWireTime(costs.problem(), bytes, ranks);
    const Time sum = plan.summed ? wire : allReduceTime(costs.problem(), bytes, ranks);
    plan.time = plus(plus(plan.time, reshards), plus(compute, sum));
    plan.summed |= bytes != 0;
    plan.amplified = isAmplified(layer) ? (__int128(reshards) + compute + wire) * ranks : 1;
    return plan;
  }

  Best begin(size_t width) const { return with(0, width, {}, 0); }

  Best best(size_t layer, size_t width) const {
    const std::vector<Best> &row = rows[layer - 1];
    const __int128 one = isAmplified(layer - 1) ? costs.compute(layer - 1, 0) : 1;
    Best best;
    for (size_t before = 0; before != row.size(); ++before) {
      const __int128 amplified = row[before].amplified;
      const bool admitted = amplified * kMillion < limit * one || before == 0 || amplified < row[best.before].amplified;
      if (!admitted)
        continue;
      Best from = row[before];
      from.summed &= before == width;
      from.before = before;
      const Best candidate = with(layer, width, from, costs.reshard(layer - 1, before, width).time);
      if (before == 0 || candidate.time < best.time)
        best = candidate;
    }
    return best;
  }

  static constexpr __int128 kMillion = 1'000'000;
  const Costs &costs;
  __int128 limit;
  std::vector<std::vector<Best>> rows; // by layer and width
};

} // namespace

Plan paperPlan(const Problem &problem, int64_t amplification) {
  const Costs costs(problem);
  const std::vector<size_t> plan = Recurrence(costs, amplification).run();
  return {.widths = costs.widthsOfPlan(plan), .cost = costs.cost(plan)};
}

} // namespace pipec::burst
