#include "runtime/simulate/Steps.h"

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

Status stepTimes(const std::vector<Stretch> &run, const Scenario *scenario, std::vector<plan::Time> &times) {
  times.clear();
  Options options;
  options.scenario = scenario;
  std::vector<plan::Time> ends; // of each rank's last step
  for (const Stretch &stretch : run) {
    if (stretch.steps == 0)
      continue;
    options.steps = stretch.steps;
    Result result;
    if (Status status = simulate(*stretch.variant, options, result); !status.ok())
      return status;
    std::vector<plan::Time> part = stepTimes(result, stretch.steps);
    if (!ends.empty()) { // this step too begins where the one before it ended
      part.front() = 0;
      for (size_t r = 0; r < ends.size(); ++r)
        part.front() = std::max(part.front(), result.ranks[r].lastEnd.front() - ends[r]);
    }
    times.insert(times.end(), part.begin(), part.end());
    ends.clear();
    options.starts.clear();
    for (const RankResult &rank : result.ranks) {
      ends.push_back(rank.lastEnd.back());
      options.starts.push_back(rank.over);
    }
  }
  return {};
}

} // namespace pipec::simulate
