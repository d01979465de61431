// The judge, against an evaluation that keeps a clock for each rank and looks at each sample; and by hand.
#include "test/burst/RandomChains.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace pipec::burst;

namespace {

/// n / d, half up.
Time divided(__int128 n, __int128 d) { return Time((n + n + d) / (d + d)); }

Time slowTime(const Times &times, int64_t samples) {
  if (samples <= times.front().samples)
    return times.front().time;
  for (size_t i = 1; i != times.size(); ++i) {
    const Entry &a = times[i - 1], &b = times[i];
    if (samples <= b.samples)
      return divided(__int128(a.time) * (b.samples - a.samples) + __int128(b.time - a.time) * (samples - a.samples),
                     b.samples - a.samples);
  }
  return divided(__int128(times.back().time) * samples, times.back().samples);
}

/// All ranks of a plan, each with what it is kept for.
struct Slow {
  const Problem &problem;
  std::vector<Time> kept;
  Time now = 0;

  void keep(int32_t ranks, Time time) {
    now += time;
    for (int32_t rank = 0; rank != ranks; ++rank)
      kept[size_t(rank)] += time;
  }
  Time wire(__int128 bytes, int64_t parts) const {
    if (problem.link.bandwidth == 0)
      return 0;
    return divided(bytes * 1'000'000'000'000, __int128(parts) * problem.link.bandwidth);
  }
  void reshard(const Layer &layer, int32_t from, int32_t to) {
    int64_t most = 0;
    for (int32_t rank = 0; rank != std::max(from, to); ++rank) {
      int64_t in = 0, out = 0;
      for (int64_t i = 0; i != problem.batch; ++i) {
        out += i % from == rank && i % to != rank;
        in += i % to == rank && i % from != rank;
      }
      most = std::max({most, in, out});
    }
    for ([[maybe_unused]] const char *way : {"forward", "backward"})
      keep(std::max(from, to), problem.link.latency + wire(layer.fixed + __int128(most) * layer.perSample, 1));
  }
  void sum(__int128 bytes, int32_t width) {
    if (bytes == 0 || width == 1)
      return;
    int64_t hops = 2 * (width - 1);
    if (problem.collective == Collective::Tree)
      for (hops = 0; (int64_t(1) << hops / 2) < width;)
        hops += 2;
    keep(width, hops * problem.link.latency + wire(2 * (width - 1) * bytes, width));
  }
};

Cost slowCost(const Problem &problem, const Widths &widths) {
  Slow slow{problem, std::vector<Time>(size_t(problem.ranks), 0)};
  __int128 bytes = 0;
  for (size_t l = 0; l != widths.size(); ++l) {
    const Layer &layer = problem.layers[l];
    int64_t samples = 0; // of member 0
    for (int64_t i = 0; i < problem.batch; ++i)
      samples += i % widths[l] == 0;
    slow.keep(widths[l], slowTime(layer.forward, samples) + slowTime(layer.backward, samples));
    bytes += layer.gradients;
    const bool ends = l + 1 == widths.size() || widths[l + 1] != widths[l];
    if (ends) {
      slow.sum(bytes, widths[l]);
      bytes = 0;
    }
    if (ends && l + 1 != widths.size())
      slow.reshard(layer, widths[l], widths[l + 1]);
  }
  Cost cost{slow.now, 0};
  for (const Time kept : slow.kept)
    cost.device += kept;
  return cost;
}

} // namespace

TEST(BurstCosts, ThreeStagesByHand) {
  Problem problem;
  problem.batch = 8;
  problem.ranks = 4;
  problem.link = {.latency = 5, .bandwidth = 1'000'000'000'000}; // a byte a picosecond
  const Layer layer{.forward = {{1, 10}, {8, 80}}, .backward = {{1, 20}, {8, 160}}, .gradients = 100, .perSample = 7};
  problem.layers = {layer, layer, layer, layer};
  // Two samples each: 60 a layer; ring of four: 6 latencies, 1.5 times 200 bytes. On two: 120, 2 latencies, 100 bytes.
  // On one: 240. Four to two: two samples leave ranks 2 and 3; two to one: four leave rank 1.
  const Time first = 2 * 60 + 30 + 300, second = 120 + 10 + 100, third = 240;
  const Time narrow = 2 * (5 + 14), narrower = 2 * (5 + 28);
  EXPECT_EQ(costOf(problem, {4, 4, 2, 1}),
            (Cost{first + narrow + second + narrower + third, 4 * (first + narrow) + 2 * (second + narrower) + third}));
  problem.collective = Collective::Tree; // 4 latencies on four
  EXPECT_EQ(costOf(problem, {4, 4, 4, 4}).time, 4 * 60 + 20 + 600);
  EXPECT_EQ(dataParallel(problem), planOf(problem, {4, 4, 4, 4}));
  EXPECT_EQ(planOf(problem, {2}), planOf(problem, {2, 2, 2, 2}));
  EXPECT_EQ(planOf(problem, {1}).cost, (Cost{960, 960}));
}

TEST(BurstCosts, AsTheSlowEvaluation) {
  RandomChains random(1);
  for (int i = 0; i != 2000; ++i) {
    Problem problem = random.problem(random.upTo(1, 9), int32_t(random.upTo(1, 12)));
    problem.choices = random.coin(50) ? Choices::All : Choices::Powers;
    const Costs costs(problem);
    std::vector<size_t> plan;
    for (size_t l = 0; l != problem.layers.size(); ++l)
      plan.push_back(l != 0 && random.coin(50) ? plan.back()
                                               : size_t(random.upTo(0, int64_t(costs.widths().size()) - 1)));
    const Widths widths = costs.widthsOfPlan(plan);
    const Cost slow = slowCost(problem, widths);
    ASSERT_EQ(costOf(problem, widths), slow) << i;
    ASSERT_EQ(costs.cost(plan), slow) << i;
  }
}

TEST(BurstCosts, NothingOverflows) {
  Problem problem;
  problem.batch = problem.ranks = 65'536;
  problem.link = {.latency = pipec::limits::kTime, .bandwidth = 1};
  Layer layer{.forward = {{1, pipec::limits::kTime}}, .backward = {{1, pipec::limits::kTime}}};
  layer.gradients = layer.fixed = layer.perSample = pipec::limits::kBytes;
  problem.layers.assign(100, layer);
  EXPECT_EQ(dataParallel(problem).cost, (Cost{kMostTime, kMostTime}));
  EXPECT_EQ(planOf(problem, {1}).cost, (Cost{kMostTime, kMostTime}));
}

TEST(BurstCosts, NoLayers) {
  Problem problem;
  EXPECT_EQ(costOf(problem, {}), Cost{});
  EXPECT_EQ(dataParallel(problem), Plan{});
  EXPECT_EQ(planOf(problem, {}), Plan{});
  problem.layers.emplace_back(); // without entries
  EXPECT_EQ(dataParallel(problem).cost, Cost{});
}
