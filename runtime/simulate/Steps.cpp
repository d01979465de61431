#include "runtime/simulate/Steps.h"

#include "runtime/simulate/SteppedRun.h"

#include <algorithm>

namespace pipec::simulate {

std::vector<plan::Time> stepTimes(const Result &result, int64_t steps) {
  std::vector<plan::Time> times(size_t(steps), 0);
  for (const RankResult &rank : result.ranks)
    for (size_t s = 0; s < times.size() && rank.firstStart[s] >= 0; ++s) // -1: the rank computes nothing
      times[s] = std::max(times[s], rank.lastEnd[s] - (s == 0 ? rank.firstStart[0] : rank.lastEnd[s - 1]));
  return times;
}

Status stepTimes(const plan::Variant &variant, const Options &options, std::vector<plan::Time> &times) {
  Result result;
  Status status = simulate(variant, options, result);
  if (status.ok())
    times = stepTimes(result, options.steps);
  return status;
}

Status stepTimes(const std::vector<Stretch> &run, const Scenario *scenario, std::vector<plan::Time> &times,
                 Launch launch) {
  times.clear();
  Options options;
  options.scenario = scenario;
  options.launch = launch;
  SteppedRun all(options);
  for (const Stretch &stretch : run)
    for (int64_t step = 0; step != stretch.steps; ++step) {
      if (Status status = all.step(*stretch.variant); !status.ok())
        return status;
      times.push_back(all.stepTime());
    }
  return {};
}

} // namespace pipec::simulate
