// The exact front, against all widths of all layers.
#include "test/burst/RandomChains.h"

#include "compiler/burst/Front.h"
#include "compiler/burst/PaperPlan.h"

#include <gtest/gtest.h>
#include <map>

using namespace pipec::burst;

namespace {

/// The costs of all plans: least device time by step time.
std::map<Time, Time> allCosts(const Costs &costs) {
  std::map<Time, Time> all;
  std::vector<size_t> plan(costs.layers(), 0);
  for (bool more = true; more;) {
    const Cost cost = costs.cost(plan);
    const auto [at, isNew] = all.emplace(cost.time, cost.device);
    at->second = std::min(at->second, cost.device);
    more = false;
    for (size_t l = 0; l != plan.size() && !more; ++l) {
      plan[l] = plan[l] + 1 == costs.widths().size() ? 0 : plan[l] + 1;
      more = plan[l] != 0;
    }
  }
  return all;
}

std::vector<Cost> undominated(const std::map<Time, Time> &all) {
  std::vector<Cost> front;
  for (const auto &[time, device] : all)
    if (front.empty() || device < front.back().device)
      front.push_back({time, device});
  return front;
}

} // namespace

TEST(BurstFront, AsAllWidthsOnAThousandChains) {
  RandomChains random(2);
  for (int i = 0; i != 1000; ++i) {
    const int64_t layers = random.upTo(1, 7);
    Problem problem = random.problem(layers, int32_t(random.upTo(1, layers > 5 ? 8 : 16)));
    problem.choices = layers <= 4 && random.coin(50) ? Choices::All : Choices::Powers;
    const Front front(problem);
    const std::map<Time, Time> all = allCosts(Costs(problem));
    ASSERT_EQ(front.costs(), undominated(all)) << i;
    for (size_t point = 0; point != front.costs().size(); ++point) {
      const Plan plan = front.plan(point);
      ASSERT_EQ(plan.cost, front.costs()[point]) << i;
      ASSERT_EQ(plan, planOf(problem, plan.widths)) << i;
    }
    for (int trial = 0; trial != 5; ++trial) {
      const Time limit = random.upTo(all.begin()->first - 2, all.rbegin()->first + 2);
      std::optional<Time> least;
      for (const auto &[time, device] : all)
        if (time <= limit)
          least = std::min(least.value_or(device), device);
      const std::optional<Plan> plan = front.within(limit);
      ASSERT_EQ(plan.has_value(), least.has_value()) << i;
      if (plan) {
        ASSERT_EQ(plan->cost.device, *least) << i;
        ASSERT_LE(plan->cost.time, limit) << i;
      }
    }
  }
}

TEST(BurstFront, NoLayers) {
  const Front front(Problem{});
  EXPECT_EQ(front.costs(), std::vector<Cost>{Cost{}});
  EXPECT_EQ(front.plan(0), Plan{});
  EXPECT_EQ(front.within(0), Plan{});
  EXPECT_EQ(front.within(-1), std::nullopt);
  EXPECT_EQ(paperPlan(Problem{}, 2'000'000), Plan{});
}
