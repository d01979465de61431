#include "runtime/adapt/Forecast.h"

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

/// When the last of these steps has ended; 0 where the network stops them.
Time Forecast::end(const std::vector<size_t> &order, const simulate::Scenario &network) const {
  simulate::Options options;
  options.scenario = &network;
  simulate::SteppedRun run(options);
  for (const size_t each : order)
    if (!run.step(*candidates[each]).ok())
      return 0;
  return run.end();
}

Time Forecast::stepTime(size_t candidate, const simulate::Scenario &network, int64_t count) const {
  const Time first = end({candidate}, network), all = end(std::vector<size_t>(size_t(count), candidate), network);
  return (all - first) / (count - 1);
}

Time Forecast::swapCost(size_t from, size_t to, const simulate::Scenario &network) const {
  const Time swapped = end({from, to}, network);
  return std::max<Time>(swapped - end({from}, network) - stepTime(to, network), 0);
}

} // namespace pipec::adapt
