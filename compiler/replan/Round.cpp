#include "compiler/replan/Round.h"

#include "runtime/adapt/Forecast.h"

#include <algorithm>

namespace pipec {

namespace {

constexpr int64_t kSteps = 4; // of a forecast

simulate::Scenario networkOf(const spec::Measured &measured) {
  simulate::Scenario network;
  for (const auto &[ends, link] : measured.links)
    network.links[ends] = {{0, link.bandwidth, link.latency}};
  for (const auto &[rank, percent] : measured.percent)
    network.slow[rank] = {{0, simulate::kNever, percent}};
  return network;
}

double over(plan::Time time, plan::Time other) { return double(time) / double(std::max<plan::Time>(other, 1)) - 1; }

/// The plan with the shortest step, and that step; there is one or more.
std::pair<size_t, plan::Time> shortest(const std::vector<Replanned> &plans, const simulate::Scenario &network) {
  std::pair<size_t, plan::Time> least;
  for (size_t i = 0; i != plans.size(); ++i) {
    const plan::Time time = adapt::Forecast({&plans[i].plan.variants.front()}).stepTime(0, network, kSteps);
    if (i == 0 || time < least.second)
      least = {i, time};
  }
  return least;
}

} // namespace

spec::Measured measuredOf(const adapt::Estimator &estimates) {
  spec::Measured measured;
  for (const auto &[ends, each] : estimates.links())
    measured.links[ends] = {each.latency, each.bandwidth};
  for (const auto &[rank, each] : estimates.ranks())
    measured.percent[rank] = std::max<int64_t>(each.percent, 1);
  return measured;
}

bool replanOnce(const Source &source, const plan::Plan &running, const std::vector<Candidate> &old,
                const spec::Measured &measured, double least, bool cuts, Round &round, Failure &failure) {
  std::vector<Replanned> made;
  if (!replan(source, running, measured, made, failure))
    return false;
  std::vector<const plan::Variant *> all;
  for (const Candidate &each : old) {
    all.push_back(each.variant);
    round.predicted.emplace_back(each.name, 0);
  }
  for (const Replanned &each : made) {
    all.push_back(&each.plan.variants.front());
    round.predicted.emplace_back(each.name, 0);
  }
  const adapt::Forecast forecast(all);
  const simulate::Scenario network = networkOf(measured);
  for (size_t c = 0; c != all.size(); ++c)
    round.predicted[c].second = forecast.stepTime(c, network, kSteps);
  const auto shorter = [](const auto &one, const auto &other) { return one.second < other.second; };
  const auto border = round.predicted.begin() + ptrdiff_t(old.size());
  const auto ofOld = std::min_element(round.predicted.begin(), border, shorter),
             ofNew = std::min_element(border, round.predicted.end(), shorter);
  round.gain = over(ofOld->second, ofNew->second);
  round.pays = round.gain > least;
  round.best = std::move(made[size_t(ofNew - border)]);
  if (!cuts)
    return true;
  if (std::vector<Replanned> all = recut(source, running, measured); !all.empty()) {
    const auto [best, step] = shortest(all, network);
    round.cutGain = over(std::min(ofOld->second, ofNew->second), step);
    round.recut = std::move(all[best]);
  }
  return true;
}

} // namespace pipec
