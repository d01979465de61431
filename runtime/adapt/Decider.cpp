#include "runtime/adapt/Decider.h"

#include <fmt/format.h>

namespace pipec::adapt {

namespace {

constexpr int64_t kOne = 1024;
constexpr Time kForgets = 577; // a score's half-life of 400 steps, over ln 2
constexpr Time kLeads = 500;   // a policy leads once ahead by a 500th of a step
constexpr Time kTaken = 200;   // and its candidate is taken if ahead by a 200th

} // namespace

Decider::Decider(std::vector<const plan::Variant *> candidates, size_t first) : forecast({}) {
  choose(std::move(candidates), first);
}

void Decider::choose(std::vector<const plan::Variant *> candidates, size_t running) {
  forecast = Forecast(std::move(candidates));
  corrections.assign(forecast.count(), kOne);
  history.clear();
  policies.clear();
  for (Policy &each : policiesFor(forecast.count())) {
    const size_t begins = each.stays >= 0 ? size_t(each.stays) : running;
    policies.push_back({std::move(each), begins, {}});
  }
  leader = before = running; // stays
  lives.clear();
  regime = running;
  age = 0;
}

Hindsight Decider::look(const StepReport &report) const {
  Hindsight seen;
  const Time step = report.slices.empty() ? 0 : report.slices.back().end - report.slices.front().begin;
  const simulate::Scenario during = estimator.during(report), late = estimator.lately(report, kSlices / 2),
                           latest = estimator.lately(report, 1);
  std::optional<simulate::Scenario> expected = phase.expected(step);
  if (expected) {
    expected->links.insert(latest.links.begin(), latest.links.end()); // of which nothing was measured then
    expected->slow = latest.slow;
  }
  for (size_t c = 0; c != forecast.count(); ++c) {
    const auto corrected = [&](Time time) { return Time(__int128(time) * corrections[c] / kOne); };
    seen.step.push_back(corrected(forecast.stepTime(c, during)));
    seen.late.push_back(corrected(forecast.stepTime(c, late)));
    seen.latest.push_back(corrected(forecast.stepTime(c, latest)));
    if (expected)
      seen.phase.push_back(corrected(forecast.secondStep(c, *expected)));
  }
  seen.end = report.slices.empty() ? 0 : report.slices.back().end;
  return seen;
}

/// Of the candidate that ran, what was predicted of a step that has ended by now is held against what it took.
void Decider::correct(const StepReport &report) {
  if (report.lastTook == 0 || report.lastSwapped || history.empty())
    return;
  const size_t c = report.lastCandidate;
  const Time predicted = history.back().step[c];
  if (predicted <= 0)
    return;
  const auto ratio = int64_t(__int128(report.lastTook) * corrections[c] / predicted);
  corrections[c] += (std::clamp<int64_t>(ratio, kOne * 8 / 10, kOne * 5 / 4) - corrections[c]) / 8;
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
      at->second = forecast.swapCost(each.proposed, next, network);
    each.score += at->second;
    each.proposed = next;
  }
}

/// The mean remaining life of regimes of this age; of the first ones, as long as they have lasted, and a while.
int64_t Decider::expectedDwell(size_t best) {
  constexpr int64_t kAtFirst = 16;
  if (best != regime) {
    lives.push_back(age);
    regime = best;
    age = 0;
  }
  ++age;
  int64_t sum = 0, count = 0;
  for (const int64_t life : lives)
    if (life > age) {
      sum += life - age;
      ++count;
    }
  return count == 0 ? std::max(age, kAtFirst) : std::max<int64_t>(sum / count, 1);
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
  ahead += seen.step[0] - seen.step[current] - (before == current ? 0 : forecast.swapCost(before, current, network));
  before = current;
  const int64_t dwell = expectedDwell(leastOf(seen.step));

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
  const Time cost = forecast.swapCost(current, wanted, network);
  if (__int128(gain) * dwell <= cost)
    return decision;
  decision.to = wanted;
  decision.why =
      fmt::format("{} us a step for {} steps, against {} us for the swap", gain / 1'000'000, dwell, cost / 1'000'000);
  return decision;
}

} // namespace pipec::adapt
