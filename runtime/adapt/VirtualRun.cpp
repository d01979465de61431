#include "runtime/adapt/VirtualRun.h"

#include "runtime/adapt/Measured.h"
#include "runtime/adapt/Profiler.h"
#include "runtime/simulate/SteppedRun.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace pipec::adapt {

namespace {

/// What an event says of its link or its rank, if anything.
void see(const simulate::Event &event, Measured &measured) {
  const plan::Operation &operation = *event.operation;
  Sample sample{event.end, {}, event.rank, -1};
  if (operation.kind == plan::Kind::Recv) {
    sample.from = operation.peer;
    sample.to = event.rank;
    sample.tally.add(event.end - event.start, event.end - event.free, operation.bytes);
  } else if (plan::isBusy(operation.kind) && operation.cost > 0) {
    sample.tally.add(event.end - event.start, operation.cost, 0);
  } else {
    return;
  }
  measured.add(sample);
}

/// Passes in pairs end together, which says nothing of one of them.
bool hasPairs(const std::vector<const plan::Variant *> &candidates) {
  for (const plan::Variant *each : candidates)
    for (const plan::Program &program : each->programs)
      for (const plan::Operation &operation : program.operations)
        if (operation.kind == plan::Kind::Overlapped)
          return true;
  return false;
}

/// Runs steps, each of the candidate that `next` names once the step before has been measured.
Status runSteps(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
                Course &course, const std::function<size_t(const StepReport &)> &next) {
  Measured measured;
  const bool pairs = hasPairs(candidates);
  simulate::Options options;
  options.scenario = &network;
  options.observe = [&](const simulate::Event &event) {
    if (!pairs || plan::isTransfer(event.operation->kind))
      see(event, measured);
  };
  simulate::SteppedRun run(options);
  Time now = 0, lastEnd = 0;
  size_t candidate = 0;
  for (int64_t step = 0; step != steps; ++step) {
    if (Status status = run.step(*candidates[candidate]); !status.ok())
      return status;
    StepReport report{candidate, {}, 0, 0, false};
    const std::vector<Time> &ends = run.ends();
    now = std::max(now, *std::min_element(ends.begin(), ends.end()) - kHorizon);
    if (step != 0 && lastEnd <= now) {
      report.lastTook = course.steps.back();
      report.lastCandidate = course.ran.back();
      report.lastSwapped = step >= 2 && course.ran[size_t(step) - 2] != course.ran[size_t(step) - 1];
    }
    course.ran.push_back(candidate);
    course.steps.push_back(run.stepTime());
    lastEnd = run.end();
    report.slices = measured.report(now);
    candidate = next(report);
  }
  course.total = run.end();
  return {};
}

} // namespace

int64_t Course::switches() const {
  int64_t count = 0;
  for (size_t i = 1; i < ran.size(); ++i)
    count += ran[i] != ran[i - 1];
  return count;
}

Status adaptive(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
                Course &course, std::vector<Decision> &decisions, Estimator *estimates) {
  Decider decider(candidates);
  Status status = runSteps(candidates, network, steps, course, [&](const StepReport &report) {
    decisions.push_back(decider.decide(report));
    return decisions.back().to;
  });
  if (estimates)
    *estimates = decider.estimates();
  return status;
}

Status tuner(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
             Course &course) {
  constexpr int64_t kEvery = 10;
  const Forecast forecast(candidates);
  Estimator estimator;
  StepReport since; // one slice after the other
  size_t chosen = 0;
  return runSteps(candidates, network, steps, course, [&](const StepReport &report) {
    estimator.take(report);
    since.slices.insert(since.slices.end(), report.slices.begin(), report.slices.end());
    if (int64_t(course.ran.size()) % kEvery != 0)
      return chosen;
    const simulate::Scenario mean = estimator.lately(since, int(since.slices.size()));
    since.slices.clear();
    Times predicted;
    for (size_t c = 0; c != candidates.size(); ++c)
      predicted.push_back(forecast.stepTime(c, mean, 2));
    return chosen = leastOf(predicted);
  });
}

Status profiler(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
                Course &course) {
  Profiler profiler(candidates.size());
  return runSteps(candidates, network, steps, course, [&](const StepReport &) {
    const auto at = int64_t(course.ran.size()); // of the step to come
    profiler.took(at - 1, course.steps.back());
    return profiler.next(at);
  });
}

Status fixed(const plan::Variant &candidate, const simulate::Scenario &network, int64_t steps, Course &course) {
  return runSteps({&candidate}, network, steps, course, [](const StepReport &) { return size_t(0); });
}

Status oracle(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
              Course &course) {
  simulate::Options options;
  options.scenario = &network;
  simulate::SteppedRun run(options);
  for (int64_t step = 0; step != steps; ++step) {
    const std::vector<Time> fence = run.fence(), ends = run.ends();
    const size_t current = step == 0 ? candidates.size() : course.ran.back();
    std::optional<simulate::SteppedRun> best;
    size_t chosen = current;
    for (size_t c = 0; c != candidates.size(); ++c) {
      if (c == current)
        continue;
      simulate::Options other = options;
      other.starts = fence;
      simulate::SteppedRun tried(other);
      if (!tried.step(*candidates[c]).ok())
        continue;
      if (!best || tried.end() < best->end()) {
        best = std::move(tried);
        chosen = c;
      }
    }
    if (step != 0 && run.step(*candidates[current]).ok() && (!best || run.end() <= best->end()))
      chosen = current;
    else if (best)
      run = std::move(*best);
    else
      return Status::check("no candidate ends its step on this network");
    Time took = 0;
    for (size_t r = 0; r != run.ends().size(); ++r)
      took = std::max(took, run.ends()[r] - (ends.empty() ? 0 : ends[r]));
    course.ran.push_back(chosen);
    course.steps.push_back(took);
  }
  course.total = run.end();
  return {};
}

} // namespace pipec::adapt
