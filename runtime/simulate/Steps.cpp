#include "runtime/simulate/Steps.h"

#include "runtime/simulate/SteppedRun.h"

#include <algorithm>

namespace pipec::simulate {

std::vector<plan::Time> stepTimes(const Result &result, int64_t steps) {
  std::vector<plan::Time> times(size_t(steps), 0);
  for (const PlaceResult &place : result.places)
    for (size_t s = 0; s < times.size() && place.firstStart[s] >= 0; ++s) // -1: the process computes nothing
      times[s] = std::max(times[s], place.lastEnd[s] - (s == 0 ? place.firstStart[0] : place.lastEnd[s - 1]));
  return times;
}

Status stepTimes(const plan::Variant &variant, const Options &options, std::vector<plan::Time> &times) {
  Result result;
  Status status = simulate(variant, options, result);
  if (status.ok())
    times = stepTimes(result, options.steps);
  return status;
}

bool overlaps(const plan::Variant &variant) {
  return std::any_of(variant.programs.begin(), variant.programs.end(), [](const plan::Program &program) {
    return std::any_of(program.queues.begin(), program.queues.end(),
                       [](const plan::Queue &queue) { return queue.priority == plan::Priority::Updates; });
  });
}

/// Simulates the stretches one after the other: before a stretch each rank has completed the one before on all its
/// queues.
static Status timesOfWholes(const std::vector<Stretch> &run, Options options, std::vector<plan::Time> &times) {
  std::vector<plan::Time> ends;
  for (const Stretch &stretch : run) {
    if (stretch.steps == 0)
      continue;
    Result result;
    options.steps = stretch.steps;
    if (Status status = simulate(*stretch.variant, options, result); !status.ok())
      return status;
    std::vector<plan::Time> own = stepTimes(result, stretch.steps);
    for (size_t p = 0; p != ends.size(); ++p) // the first step of a later stretch counts from the last end before it
      own.front() = std::max(own.front(), result.places[p].lastEnd.front() - ends[p]);
    times.insert(times.end(), own.begin(), own.end());
    ends.clear();
    options.starts.clear();
    for (const PlaceResult &place : result.places) {
      ends.push_back(place.lastEnd.back());
      options.starts.push_back(place.over);
    }
  }
  return {};
}

Status stepTimes(const std::vector<Stretch> &run, const Scenario *scenario, std::vector<plan::Time> &times,
                 Launch launch) {
  times.clear();
  Options options;
  options.scenario = scenario;
  options.launch = launch;
  if (std::any_of(run.begin(), run.end(), [](const Stretch &stretch) { return overlaps(*stretch.variant); }))
    return timesOfWholes(run, options, times);
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
