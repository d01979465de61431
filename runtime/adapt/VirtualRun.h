// Drives the decision maker in virtual time, and the policies that it is compared with.
#pragma once

#include "runtime/adapt/Decider.h"
#include "runtime/plan/Status.h"

#include <functional>

namespace pipec::adapt {

/// A simulated run.
struct Course {
  std::vector<size_t> ran; // the candidate of each step
  std::vector<Time> steps; // the duration of each step, as in simulate/Steps.h
  Time total = 0;          // until the last rank has ended the last step
  int64_t switches() const;
};

/// The most candidates. If plans bring more, the earliest ones are dropped.
inline constexpr size_t kMostCandidates = 16;

/// Makes plans for the current estimates, as `pipec replan` does beside a run, and as often (Changes.h).
struct Replanner {
  Time every = 10'000'000'000'000, takes = 2'000'000'000'000; // picoseconds between rounds, and until a plan is there
  /// At a moment: takes the estimates and the present candidates, and returns the variants to add. Variants must
  /// outlive the run.
  std::function<std::vector<const plan::Variant *>(Time at, const Estimator &,
                                                   const std::vector<const plan::Variant *> &)>
      plan;
};

/// Decides step by step. A decision knows what had been measured by then, and nothing later. `estimates`: those at the
/// end. Candidates that a replanner adds are numbered after those given.
Status adaptive(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
                Course &course, std::vector<Decision> &decisions, Estimator *estimates = nullptr,
                const Replanner *replanner = nullptr);

/// Ada-Grouper's tuner (arXiv 2303.01675, section 5): every ten steps it chooses the candidate that is predicted to be
/// the shortest with each link's mean transfer time since the last choice.
Status tuner(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
             Course &course);
/// Ada-Grouper's tuner that tries candidates (Profiler.h).
Status profiler(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
                Course &course);

/// One candidate throughout.
Status fixed(const plan::Variant &candidate, const simulate::Scenario &network, int64_t steps, Course &course);

/// An oracle that knows the network: for each step takes the candidate that ends it first, the swap included.
Status oracle(const std::vector<const plan::Variant *> &candidates, const simulate::Scenario &network, int64_t steps,
              Course &course);

} // namespace pipec::adapt
