#include "runtime/adapt/Decider.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <tuple>

namespace pipec::adapt {

namespace {

constexpr int64_t kOne = 1024;
constexpr int64_t kBudget = 100'000; // instructions that a decision may walk, or two candidates, so that it is in time
constexpr Time kForgets = 577;       // a score's half-life of 400 steps, over ln 2
constexpr Time kLeads = 500;         // a policy leads once ahead by a 500th of a step
constexpr Time kTaken = 200;         // and its candidate is taken if ahead by a 200th

} // namespace

Decider::Decider(std::vector<const plan::Variant *> candidates, size_t first) : forecast({}) {
  choose(std::move(candidates), first);
  estimator = Estimator(forecast.shards());
}

void Decider::choose(std::vector<const plan::Variant *> candidates, size_t running) {
  forecast = Forecast(std::move(candidates));
  corrections.assign(forecast.count(), kOne);
  measured.assign(forecast.count(), 0);
  history.clear();
  policies.clear();
  for (Policy &each : policiesFor(forecast.count())) {
    const size_t begins = each.stays >= 0 ? size_t(each.stays) : running;
    policies.push_back({std::move(each), begins, {}});
  }
  leader = before = left = running; // stays
  moving = 0;
  regimes = Regimes(running);
}

/// Of a candidate that is not walked: what it took when it last was, against the one that runs.
Time Decider::lastKnown(size_t candidate, size_t current, Time now) const {
  const auto of = [&](size_t each) { return history.empty() ? forecast.span(each) : history.back().step[each]; };
  return Time(__int128(of(candidate)) * now / std::max<Time>(of(current), 1));
}

/// Walks what the budget allows: the step that was seen with every candidate, and what is to come with the one that
/// runs and with the shortest. Where it does not suffice for all, some are left as they last were.
Hindsight Decider::look(const StepReport &report) {
  const size_t count = forecast.count(), current = report.candidate;
  const simulate::Scenario during = estimator.during(report), late = estimator.lately(report, kSlices / 2),
                           latest = estimator.lately(report, 1);
  std::optional<simulate::Scenario> expected = phase.expected();
  if (expected) {
    expected->links.insert(latest.links.begin(), latest.links.end()); // of which nothing was measured then
    expected->slow = latest.slow;
  }
  int64_t all = 0;
  for (size_t c = 0; c != count; ++c)
    all += forecast.size(c);
  const int64_t steps = std::clamp<int64_t>(kBudget / ((expected ? 4 : 3) * all), 2, 4);
  const auto corrected = [&](size_t c, Time time) { return Time(__int128(time) * corrections[c] / kOne); };
  const auto walk = [&](size_t c, const simulate::Scenario &network) {
    return corrected(c, forecast.stepTime(c, network, steps));
  };

  // First the one that runs, then those that took least when they were last seen, one by turns among the first.
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t(0));
  const auto least = [&](const Times &times) {
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::tuple(a != current, times[a], a) < std::tuple(b != current, times[b], b);
    });
  };
  if (!history.empty())
    least(history.back().step);
  if (count > 2) {
    const auto next = std::find(order.begin(), order.end(), turn++ % count);
    if (next > order.begin() + 2)
      std::rotate(order.begin() + 2, next, next + 1);
  }
  Hindsight seen;
  seen.end = report.slices.empty() ? 0 : report.slices.back().end;
  seen.step.assign(count, 0);
  int64_t spent = 0;
  size_t walked = 0;
  for (const size_t c : order) {
    const int64_t cost = steps * forecast.size(c);
    const bool fits = walked < 2 || spent + cost <= kBudget / 2;
    seen.step[c] = fits ? walk(c, during) : lastKnown(c, current, seen.step[current]);
    spent += fits ? cost : 0;
    walked += fits;
  }
  least(seen.step);
  seen.late = seen.latest = seen.step;
  if (expected)
    seen.phase = seen.step;
  walked = 0;
  for (const size_t c : order) {
    const int64_t cost = (expected ? 3 : 2) * steps * forecast.size(c);
    if (walked >= 2 && spent + cost > kBudget) {
      // It changes as the shortest that was walked does.
      const size_t like = order[1];
      const auto scaled = [&](const Times &times) {
        return Time(__int128(seen.step[c]) * times[like] / std::max<Time>(seen.step[like], 1));
      };
      seen.late[c] = scaled(seen.late);
      seen.latest[c] = scaled(seen.latest);
      if (expected)
        seen.phase[c] = scaled(seen.phase);
      continue;
    }
    seen.late[c] = walk(c, late);
    seen.latest[c] = walk(c, latest);
    if (expected)
      seen.phase[c] = corrected(c, forecast.nextStep(c, latest, *expected));
    spent += cost;
    ++walked;
  }
  return seen;
}

/// Under what was measured in the last half of the step. What it takes to move units is known once that has been done.
Time Decider::swapCost(size_t from, size_t to, const Hindsight &seen, const simulate::Scenario &network) const {
  const Time simulated = forecast.swapCost(from, to, seen.late[to] * kOne / corrections[to], network);
  return simulated + (forecast.moves(from, to) ? moving : 0);
}

/// Of the candidate that ran, what was predicted of a step that has ended by now is held against what it took.
void Decider::correct(const StepReport &report) {
  if (report.lastTook == 0 || history.empty())
    return;
  const size_t c = report.lastCandidate;
  const Time predicted = history.back().step[c];
  if (report.lastSwapped) {
    if (c != left && forecast.moves(left, c))
      moving = std::max<Time>(report.lastTook - forecast.stepBehind(left, c, estimator.lately(report, kSlices / 2)), 0);
    return;
  }
  if (predicted <= 0)
    return;
  const auto ratio = int64_t(__int128(report.lastTook) * corrections[c] / predicted);
  // The first counts whole: a swap that does not bring what it promised is undone at once.
  const int64_t parts = measured[c] = std::min<int64_t>(measured[c] + 1, 8);
  corrections[c] += (std::clamp<int64_t>(ratio, kOne * 8 / 10, kOne * 5 / 4) - corrections[c]) / parts;
}

/// What each policy would have cost in the step that was seen.
void Decider::score(const Hindsight &seen, const simulate::Scenario &network) {
  std::map<std::pair<size_t, size_t>, Time> swaps;
  for (Scored &each : policies) {
    each.score -= each.score / kForgets;
    each.score += seen.step[each.proposed];
    each.predicted = each.policy.predict(history);
    const size_t next = each.policy.stays >= 0 ? size_t(each.policy.stays) : leastOf(each.predicted);
    if (next == each.proposed)
      continue;
    const auto [at, isNew] = swaps.try_emplace({each.proposed, next});
    if (isNew)
      at->second = swapCost(each.proposed, next, seen, network);
    each.score += at->second;
    each.proposed = next;
  }
}

Decision Decider::decide(const StepReport &report) {
  const size_t current = report.candidate;
  estimator.take(report);
  phase.take(report);
  correct(report);
  const Hindsight seen = look(report);
  history.push_back(seen);
  if (history.size() > kRemembered)
    history.pop_front();
  const simulate::Scenario network = estimator.lately(report, kSlices / 2);
  score(seen, network);
  ahead += seen.step[0] - seen.step[current] - (before == current ? 0 : swapCost(before, current, seen, network));
  if (before != current)
    left = before;
  before = current;
  const int64_t dwell = regimes.expect(leastOf(seen.step));

  const Time step = seen.step[current];
  for (size_t p = 0; p != policies.size(); ++p)
    if (policies[p].score + step / kLeads < policies[leader].score)
      leader = p;
  const Scored &lead = policies[leader];
  Decision decision{current, current, seen.end, lead.policy.name, "", lead.predicted, dwell};
  const size_t wanted = lead.proposed;
  if (wanted == current)
    return decision;
  const Time gain = decision.predicted[current] - decision.predicted[wanted];
  if (gain <= step / kTaken)
    return decision;
  const Time cost = swapCost(current, wanted, seen, network);
  if (!pays(gain, dwell, cost))
    return decision;
  decision.to = wanted;
  decision.why =
      fmt::format("{} us a step for {} steps, against {} us for the swap", gain / 1'000'000, dwell, cost / 1'000'000);
  return decision;
}

} // namespace pipec::adapt
