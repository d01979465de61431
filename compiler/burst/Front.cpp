// A stage costs the same whatever is before and behind it, its all-reduce included. So plans of the first layers whose
// last stage ends at a layer differ for what follows in their costs and in that stage's width alone, and of those of
// one width only undominated ones matter: by layer and width a front of them is kept, each point with the one that it
// came from.
#include "compiler/burst/Front.h"

#include <algorithm>
#include <tuple>

namespace pipec::burst {
namespace {

/// Costs, and what they are made of: `of` is a width or a layer, `index` a point of that one's.
struct Point {
  Cost cost;
  uint32_t of = 0, index = 0;
};
using Points = std::vector<Point>;

void add(Points &to, const Points &from, const Cost &more, size_t of) {
  for (uint32_t i = 0; i != from.size(); ++i)
    to.push_back({plus(from[i].cost, more), uint32_t(of), i});
}

void keepUndominated(Points &points) {
  std::sort(points.begin(), points.end(), [](const Point &one, const Point &other) {
    return std::tie(one.cost.time, one.cost.device, one.of, one.index) <
           std::tie(other.cost.time, other.cost.device, other.of, other.index);
  });
  size_t kept = 0;
  for (const Point &point : points)
    if (kept == 0 || point.cost.device < points[kept - 1].cost.device)
      points[kept++] = point;
  points.resize(kept);
  points.shrink_to_fit();
}

} // namespace

struct Front::State {
  explicit State(const Problem &problem) : problem(problem), costs(this->problem) {}

  Problem problem; // of its own, which costs refer to
  Costs costs;
  std::vector<std::vector<Points>> begun; // by first layer and width of a stage, all before it
  std::vector<std::vector<Points>> ended; // by last layer and width of a stage, it included
  Points last;                            // of all layers
  std::vector<Cost> all;
};

Front::Front(const Problem &problem) : state(std::make_unique<State>(problem)) {
  const Costs &costs = state->costs;
  const size_t widths = costs.widths().size();
  auto &begun = state->begun, &ended = state->ended;
  for (size_t layer = 0; layer != costs.layers(); ++layer) {
    begun.emplace_back(widths);
    ended.emplace_back(widths);
    for (size_t width = 0; width != widths; ++width) {
      if (layer == 0)
        begun[0][width].push_back({});
      for (size_t from = 0; layer != 0 && from != widths; ++from)
        if (from != width)
          add(begun[layer][width], ended[layer - 1][from], costs.reshard(layer - 1, from, width), from);
      keepUndominated(begun[layer][width]);
      for (size_t first = 0; first <= layer; ++first)
        add(ended[layer][width], begun[first][width], costs.stage(first, layer, width), first);
      keepUndominated(ended[layer][width]);
    }
  }
  if (costs.layers() == 0)
    state->last.push_back({});
  for (size_t width = 0; costs.layers() != 0 && width != widths; ++width)
    add(state->last, ended.back()[width], {}, width);
  keepUndominated(state->last);
  for (const Point &point : state->last)
    state->all.push_back(point.cost);
}

Front::~Front() = default;
Front::Front(Front &&) noexcept = default;

const std::vector<Cost> &Front::costs() const { return state->all; }

Plan Front::plan(size_t point) const {
  const State &of = *state;
  Plan plan{.widths = Widths(of.costs.layers()), .cost = of.all[point]};
  const Point *at = &of.last[point];
  for (size_t layers = of.costs.layers(); layers != 0;) {
    const size_t width = at->of;
    const Point &end = of.ended[layers - 1][width][at->index];
    std::fill(plan.widths.begin() + end.of, plan.widths.begin() + ptrdiff_t(layers), of.costs.widths()[width]);
    at = &of.begun[end.of][width][end.index];
    layers = end.of;
  }
  return plan;
}

std::optional<Plan> Front::within(Time limit) const {
  const std::vector<Cost> &all = costs();
  const auto after = std::partition_point(all.begin(), all.end(), [&](const Cost &cost) { return cost.time <= limit; });
  if (after == all.begin())
    return std::nullopt;
  return plan(size_t(after - all.begin()) - 1);
}

} // namespace pipec::burst
