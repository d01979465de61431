// The decision maker driven in virtual time, and what it is judged by.
#pragma once

#include "runtime/adapt/Decider.h"
#include "runtime/plan/Status.h"

#include <functional>

namespace pipec::adapt {

/// A run of so many steps.
struct Course {
  std::vector<size_t> ran; // the candidate of each step
  std::vector<Time> steps; // the time of each, as in simulate/Steps.h
  Time total = 0;          // until the last rank has ended the last step
  int64_t switches() const;
};

/// At most so many may be chosen from; where plans bring more, those that came first go.
inline constexpr size_t kMostCandidates = 16;

/// Plans for the estimates of a moment, as `pipec replan` makes them beside a run, and as often (Changes.h).
struct Replanner {
  Time every = 10'000'000'000'000, takes = 2'000'000'000'000; // until a plan is there
  /// Of a moment: what it has of those that may be chosen from, and what is to be added to them. Variants outlive the
  /// run.
  std::function<std::vector<const plan::Variant *>(Time at, const Estimator &,
                                                   const std::vector<const plan::Variant *> &)>
      plan;
};

/// Decides step for step; a decision knows what had been measured by then, and nothing later. `estimates`: those of the
/// end. With a replanner, the candidates that it adds have the numbers behind those given.
Status adaptive(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
                Course &course, std::vector<Decision> &decisions, Estimator *estimates = nullptr,
                const Replanner *replanner = nullptr);

/// Ada-Grouper's tuner (arXiv 2303.01675, section 5): every ten steps the candidate that is predicted to be shortest
/// with each link's mean transfer time since it last chose.
Status tuner(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
             Course &course);
/// And the one that tries (Profiler.h).
Status profiler(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
                Course &course);

/// One candidate throughout.
Status fixed(const plan::Variant &candidate, const simulate::Scenario &network, int64_t steps, Course &course);

/// Takes for each step the candidate that ends it first, the swap included: it knows the network.
Status oracle(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
              Course &course);

} // namespace pipec::adapt
