#include "compiler/burst/Costs.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace pipec::burst {
namespace {

Time within(__int128 time) { return Time(std::min<__int128>(time, kMostTime)); }
Bytes bytesWithin(__int128 bytes) { return Bytes(std::min<__int128>(bytes, std::numeric_limits<Bytes>::max())); }

} // namespace

Cost costOn(int32_t ranks, Time time) { return {time, within(__int128(ranks) * time)}; }

Time allReduceWireTime(const Problem &problem, Bytes gradients, int32_t width) {
  if (width <= 1 || gradients == 0)
    return 0;
  return schedule::ringOf(width, {.latency = 0, .bandwidth = problem.linkOf(width).bandwidth}).allReduce.of(gradients);
}

Time allReduceTime(const Problem &problem, Bytes gradients, int32_t width) {
  if (width <= 1 || gradients == 0)
    return 0;
  if (problem.collective == Collective::Ring)
    return schedule::ringOf(width, problem.linkOf(width)).allReduce.of(gradients);
  const __int128 latencies = __int128(2 * std::bit_width(uint32_t(width - 1))) * problem.linkOf(width).latency;
  return Time(std::min<__int128>(latencies + allReduceWireTime(problem, gradients, width), schedule::kLongest));
}

Bytes reshardBytes(const Layer &layer, int64_t moved) {
  return bytesWithin(__int128(moved) * layer.perSample + layer.fixed);
}

static Time reshardTime(const Link &link, const Layer &layer, int64_t moved) {
  const __int128 time = __int128(schedule::wireTime(reshardBytes(layer, moved), link.bandwidth)) + link.latency;
  return Time(std::min<__int128>(time, schedule::kLongest));
}

Time reshardTime(const Problem &problem, const Layer &layer, int32_t from, int32_t to) {
  if (from == to)
    return 0;
  return reshardTime(problem.linkOf(std::max(from, to)), layer, movedSamples(problem.batch, from, to));
}

Costs::Costs(const Problem &problem, Widths widths) : of(problem), choices(std::move(widths)) {
  computed.assign(choices.size(), 0);
  gradients.assign(1, 0);
  for (const Layer &layer : of.layers) {
    gradients.push_back(gradients.back() + layer.gradients);
    for (const int32_t width : choices) {
      const int64_t samples = localBatch(of.batch, width);
      computed.push_back(computed[computed.size() - choices.size()] + timeOf(layer.forward, samples) +
                         timeOf(layer.backward, samples));
    }
  }
  for (const int32_t from : choices)
    for (const int32_t to : choices)
      moved.push_back(movedSamples(of.batch, from, to));
}

Time Costs::compute(size_t layer, size_t width) const {
  const size_t at = layer * choices.size() + width;
  return Time(computed[at + choices.size()] - computed[at]);
}

Cost Costs::stage(size_t first, size_t last, size_t width) const {
  const size_t n = choices.size();
  const Time compute = within(computed[(last + 1) * n + width] - computed[first * n + width]);
  const Bytes bytes = bytesWithin(gradients[last + 1] - gradients[first]);
  return plus(costOn(choices[width], compute), costOn(choices[width], allReduceTime(of, bytes, choices[width])));
}

Cost Costs::reshard(size_t layer, size_t from, size_t to) const {
  if (from == to)
    return {};
  const int32_t wider = std::max(choices[from], choices[to]);
  return costOn(wider, 2 * reshardTime(of.linkOf(wider), of.layers[layer], moved[from * choices.size() + to]));
}

Cost Costs::cost(const std::vector<size_t> &plan) const {
  Cost all;
  for (size_t first = 0; first < plan.size();) {
    size_t last = first;
    while (last + 1 != plan.size() && plan[last + 1] == plan[first])
      ++last;
    all = plus(all, stage(first, last, plan[first]));
    if (last + 1 != plan.size())
      all = plus(all, reshard(last, plan[last], plan[last + 1]));
    first = last + 1;
  }
  return all;
}

Widths Costs::widthsOfPlan(const std::vector<size_t> &plan) const {
  Widths widths;
  for (const size_t each : plan)
    widths.push_back(choices[each]);
  return widths;
}

Cost costOf(const Problem &problem, const Widths &widths) {
  Widths used = widths;
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::vector<size_t> plan;
  for (const int32_t width : widths)
    plan.push_back(size_t(std::lower_bound(used.begin(), used.end(), width) - used.begin()));
  return Costs(problem, used).cost(plan);
}

Plan planOf(const Problem &problem, const Widths &widths) {
  const size_t layers = problem.layers.size();
  Plan plan{.widths = widths.size() == 1 ? Widths(layers, widths.front()) : widths, .cost = {}};
  plan.cost = costOf(problem, plan.widths);
  return plan;
}

Plan dataParallel(const Problem &problem) { return planOf(problem, {widthsOf(problem).back()}); }

} // namespace pipec::burst
