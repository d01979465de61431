#include "runtime/adapt/Forecast.h"

#include "runtime/plan/Limits.h"
#include "runtime/simulate/SteppedRun.h"

#include <algorithm>

namespace pipec::adapt {

Forecast::Forecast(std::vector<const plan::Variant *> given, int64_t budget) : candidates(std::move(given)) {
  int64_t all = 0;
  for (const plan::Variant *each : candidates)
    for (const plan::Program &program : each->programs)
      all += plan::executed(program);
  steps = std::clamp<int64_t>(budget / std::max<int64_t>(all, 1), 2, 4);
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

Time Forecast::swapCost(size_t from, size_t to, const simulate::Scenario &network) const {
  const std::vector<Time> made = ends({from, to}, network);
  return made.empty() ? limits::kTime : std::max<Time>(made[1] - made[0] - stepTime(to, network), 0);
}

} // namespace pipec::adapt
