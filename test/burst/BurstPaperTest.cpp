// The paper's planner, against its recurrence written down as the facts have it: by recursion, amplifications as
// ratios.
#include "test/burst/RandomChains.h"

#include "compiler/burst/PaperPlan.h"

#include <gtest/gtest.h>
#include <map>

using namespace pipec::burst;

namespace {

/// Exact ratios of non-negative numbers.
struct Ratio {
  __int128 n = 1, d = 1;
  bool operator<(const Ratio &other) const { return n * other.d < other.n * d; }
};

class Recursion {
public:
  Recursion(const Problem &problem, int64_t limit) : problem(problem), limit{limit, 1'000'000} {}

  struct State {
    Time t = 0;
    Ratio amplification;
    Widths widths;
  };

  const State &at(size_t l, int32_t g) {
    if (const auto found = known.find({l, g}); found != known.end())
      return found->second;
    std::optional<State> best;
    std::optional<Ratio> bestAmplification;
    for (const int32_t h : l == 0 ? Widths{g} : widthsOf(problem)) {
      const State before = l == 0 ? State{} : at(l - 1, h);
      const Time transfer = l == 0 || h == g ? 0 : 2 * reshardTime(problem, problem.layers[l - 1], h, g);
      const Time wire = allReduceWireTime(problem, problem.layers[l].gradients, g);
      State state{before.t + transfer + compute(l, g) + wire, {}, before.widths};
      state.widths.push_back(g);
      if (isFirstWithGradients(state.widths))
        state.t += latencies(g);
      if (compute(l, 1) > 300'000'000)
        state.amplification = {__int128(transfer + compute(l, g) + wire) * g, compute(l, 1)};
      if (best && !(before.amplification < limit) && !(before.amplification < *bestAmplification))
        continue;
      if (best && best->t <= state.t)
        continue;
      best = state;
      bestAmplification = before.amplification;
    }
    return known[{l, g}] = *best;
  }

  Widths plan() {
    Widths widths;
    std::optional<Time> best;
    for (const int32_t g : widthsOf(problem)) {
      const State &state = at(problem.layers.size() - 1, g);
      if (best && *best <= state.t)
        continue;
      best = state.t;
      widths = state.widths;
    }
    return widths;
  }

private:
  Time compute(size_t l, int32_t g) const {
    const int64_t samples = (problem.batch + g - 1) / g;
    return timeOf(problem.layers[l].forward, samples) + timeOf(problem.layers[l].backward, samples);
  }
  Time latencies(int32_t g) const {
    if (problem.collective == Collective::Ring)
      return 2 * (g - 1) * problem.link.latency;
    Time all = 0;
    for (int32_t reached = 1; reached < g; reached *= 2)
      all += 2 * problem.link.latency;
    return all;
  }
  /// The last layer is its stage's first that has gradients.
  bool isFirstWithGradients(const Widths &widths) const {
    size_t l = widths.size() - 1;
    if (problem.layers[l].gradients == 0)
      return false;
    for (; l != 0 && widths[l - 1] == widths[l]; --l)
      if (problem.layers[l - 1].gradients != 0)
        return false;
    return true;
  }

  const Problem &problem;
  Ratio limit;
  std::map<std::pair<size_t, int32_t>, State> known;
};

} // namespace

TEST(BurstPaper, AsItsRecurrence) {
  RandomChains random(3);
  for (int i = 0; i != 3000; ++i) {
    Problem problem = random.problem(random.upTo(1, 12), int32_t(random.upTo(1, 16)));
    problem.choices = random.coin(50) ? Choices::All : Choices::Powers;
    const int64_t limit = random.upTo(800'000, 6'000'000);
    const Plan plan = paperPlan(problem, limit);
    ASSERT_EQ(plan.widths, Recursion(problem, limit).plan()) << i;
    ASSERT_EQ(plan.cost, costOf(problem, plan.widths)) << i;
  }
}

TEST(BurstPaper, NarrowWhereAmplificationIsLimited) {
  // Twice the ranks, the same time: any width above 1 amplifies by its ranks. Of the last layer nobody asks.
  Problem problem;
  problem.batch = problem.ranks = 8;
  const Times flat{{1, 400'000'000}, {8, 400'000'001}};
  problem.layers.assign(3, {.forward = flat, .backward = {{1, 0}}});
  EXPECT_EQ(paperPlan(problem, 1'500'000).widths, (Widths{1, 1, 2}));
  EXPECT_EQ(paperPlan(problem, 100'000'000).widths, (Widths{2, 2, 2}));
}
