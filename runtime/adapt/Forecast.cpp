#include "runtime/adapt/Forecast.h"

#include "runtime/plan/Limits.h"
#include "runtime/simulate/SteppedRun.h"

#include <algorithm>

namespace pipec::adapt {

Forecast::Forecast(std::vector<const plan::Variant *> given) : candidates(std::move(given)) {
  for (const plan::Variant *each : candidates) {
    int64_t &size = sizes.emplace_back(0);
    for (const plan::Program &program : each->programs)
      size += plan::executed(program) * each->shards();
  }
}

/// When each of these steps has ended; empty where the network stops them.
std::vector<Time> Forecast::ends(const std::vector<size_t> &order, const simulate::Scenario &network) const {
  simulate::Options options;
  options.scenario = &network;
  simulate::SteppedRun run(options);
  std::vector<Time> made;
  for (const size_t each : order) {
    if (!run.step(*candidates[each]).ok())
      return {};
    made.push_back(run.end());
  }
  return made;
}

Time Forecast::stepTime(size_t candidate, const simulate::Scenario &network, int64_t count) const {
  const std::vector<Time> made = ends(std::vector<size_t>(size_t(count), candidate), network);
  return made.empty() ? limits::kTime : (made.back() - made.front()) / (count - 1);
}

Time Forecast::nextStep(size_t candidate, const simulate::Scenario &before, const simulate::Scenario &then) const {
  simulate::Scenario network = before; // of the step that is walked
  simulate::Options options;
  options.scenario = &network;
  simulate::SteppedRun run(options);
  if (!run.step(*candidates[candidate]).ok())
    return limits::kTime;
  const Time begin = *std::min_element(run.ends().begin(), run.ends().end()), end = run.end();
  network = then;
  for (auto &[between, link] : network.links)
    for (size_t s = 1; s < link.stretches.size(); ++s)
      link.stretches[s].at += begin;
  return run.step(*candidates[candidate]).ok() ? run.end() - end : limits::kTime;
}

Time Forecast::stepBehind(size_t from, size_t to, const simulate::Scenario &network) const {
  simulate::Options options;
  options.scenario = &network;
  simulate::SteppedRun run(options);
  const bool runs = run.step(*candidates[from]).ok() && run.step(*candidates[to]).ok();
  return runs ? run.stepTime() : limits::kTime;
}

Time Forecast::swapCost(size_t from, size_t to, Time alone, const simulate::Scenario &network) const {
  const std::vector<Time> made = ends({from, to}, network);
  return made.empty() ? limits::kTime : std::max<Time>(made[1] - made[0] - alone, 0);
}

} // namespace pipec::adapt
