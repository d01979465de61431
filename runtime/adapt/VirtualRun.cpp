#include "runtime/adapt/VirtualRun.h"

#include "runtime/adapt/Changes.h"
#include "runtime/adapt/Measured.h"
#include "runtime/adapt/Profiler.h"
#include "runtime/plan/Limits.h"
#include "runtime/simulate/SteppedRun.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace pipec::adapt {

namespace {

/// What an event says of its link or its rank, if anything.
void see(const simulate::Event &event, const plan::Variant &variant, Measured &measured) {
  const plan::Operation &operation = *event.operation;
  Sample sample{event.end, {}, event.place, -1};
  if (plan::receives(operation.kind)) {
    sample.from = operation.peer;
    sample.to = event.rank;
    sample.tally.add(event.end - event.start, event.end - event.free, operation.bytes);
  } else if (const plan::Own *own = variant.ownOf(size_t(event.place)); own && plan::isBusy(operation.kind)) {
    const auto &all = variant.programOf(size_t(event.place)).operations;
    sample.tally.add(event.own, healthyTime(*own, size_t(&operation - all.data())), 0);
  } else if (plan::isBusy(operation.kind) && operation.cost > 0) {
    sample.tally.add(event.end - event.start, operation.cost, 0);
  } else {
    return;
  }
  measured.add(sample);
}

/// Passes in pairs end together, which says nothing of one of them.
bool hasPairs(const plan::Variant &variant) {
  for (const plan::Program &program : variant.programs)
    for (const plan::Operation &operation : program.operations)
      if (plan::isHeader(operation.kind))
        return true;
  return false;
}

/// Runs steps, each of the candidate that `next` names once the step before has been measured.
Status runSteps(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
                Course &course, const std::function<size_t(const StepReport &)> &next) {
  Measured measured;
  const plan::Variant *runs = nullptr; // in this step
  bool pairs = false;                  // likewise
  simulate::Options options;
  options.scenario = &network;
  options.observe = [&](const simulate::Event &event) {
    if (!pairs || plan::isTransfer(event.operation->kind))
      see(event, *runs, measured);
  };
  simulate::SteppedRun run(options);
  Time now = 0, lastEnd = 0;
  size_t candidate = 0;
  for (int64_t step = 0; step != steps; ++step) {
    runs = candidates[candidate];
    pairs = hasPairs(*runs);
    if (Status status = run.step(*candidates[candidate]); !status.ok())
      return status;
    StepReport report{candidate, {}, 0, 0, false};
    const std::vector<Time> &ends = run.ends();
    now =
        std::max(now, *std::min_element(ends.begin(), ends.end()) - horizonOf(candidates[candidate]->certificate.span));
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

namespace {

/// Candidates that come and go. All there ever were have a number, which stays; the decision maker numbers those that
/// are present.
class Candidates {
public:
  Candidates(const std::vector<const plan::Variant *> &given, const Replanner *replanner)
      : all(given), present(given.size()), own(given.size()), replanner(replanner),
        rounds(replanner ? replanner->every : limits::kTime) {
    std::iota(present.begin(), present.end(), size_t(0));
  }

  /// At a moment, while one of them runs. True: there are others now.
  bool renew(Time now, size_t running) {
    if (now < ready)
      return false;
    rounds.end(ready, 0); // in virtual time nobody waits for a processor
    ready = limits::kTime;
    for (const plan::Variant *each : coming) {
      present.push_back(all.size());
      all.push_back(each);
    }
    for (size_t i = own; present.size() > kMostCandidates && i != present.size();)
      if (present[i] == running)
        ++i;
      else
        present.erase(present.begin() + ptrdiff_t(i));
    return !coming.empty();
  }
  /// Begins to plan anew where it is time to.
  void plan(Time now, const Estimator &estimates) {
    const Conditions measured = conditionsOf(estimates);
    if (!replanner || !rounds.due(now, measured))
      return;
    rounds.begin(now, measured);
    coming = replanner->plan(now, estimates, variants());
    ready = now + replanner->takes;
  }

  std::vector<const plan::Variant *> variants() const {
    std::vector<const plan::Variant *> made;
    for (const size_t each : present)
      made.push_back(all[each]);
    return made;
  }
  std::optional<size_t> placeOf(size_t candidate) const {
    const auto found = std::find(present.begin(), present.end(), candidate);
    return found == present.end() ? std::nullopt : std::optional(size_t(found - present.begin()));
  }
  /// A decision by places, by numbers.
  void number(Decision &decision) const {
    Times predicted(all.size(), 0);
    for (size_t i = 0; i != present.size(); ++i)
      predicted[present[i]] = decision.predicted[i];
    decision.predicted = std::move(predicted);
    decision.from = present[decision.from];
    decision.to = present[decision.to];
  }

  std::vector<const plan::Variant *> all;

private:
  std::vector<size_t> present;
  const size_t own; // of the run's own plan, which stay
  const Replanner *replanner;
  Rounds rounds;
  std::vector<const plan::Variant *> coming;
  Time ready = limits::kTime;
};

} // namespace

Status adaptive(const std::vector<const plan::Variant *> &given, const simulate::Scenario &network, int64_t steps,
                Course &course, std::vector<Decision> &decisions, Estimator *estimates, const Replanner *replanner) {
  Decider decider(given);
  Candidates candidates(given, replanner);
  Status status = runSteps(candidates.all, network, steps, course, [&](StepReport report) {
    const Time now = report.slices.back().end;
    const bool renewed = candidates.renew(now, report.candidate);
    const std::optional<size_t> last = candidates.placeOf(report.lastCandidate);
    report.candidate = *candidates.placeOf(report.candidate);
    report.lastCandidate = last.value_or(0);
    if (!last)
      report.lastTook = 0;
    if (renewed)
      decider.choose(candidates.variants(), report.candidate);
    decisions.push_back(decider.decide(report));
    candidates.number(decisions.back());
    candidates.plan(now, decider.estimates());
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
  Estimator estimator(forecast.shards());
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
