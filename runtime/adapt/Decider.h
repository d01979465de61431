// Follows the policy that would have cost least.
#pragma once

#include "runtime/adapt/Estimator.h"
#include "runtime/adapt/Forecast.h"
#include "runtime/adapt/Phase.h"
#include "runtime/adapt/Policy.h"
#include "runtime/adapt/Regimes.h"
#include "runtime/adapt/StepReport.h"

namespace pipec::adapt {

/// Of a step: what it is to run, and why.
struct Decision {
  size_t from = 0, to = 0; // candidates
  Time at = 0;             // when: the end of what had been measured
  std::string policy, why;
  Times predicted;   // of each candidate, by the policy
  int64_t dwell = 0; // for how many steps it is expected to hold
};

class Decider {
public:
  explicit Decider(std::vector<const plan::Variant *> candidates, size_t first = 0);

  /// Chooses among others from now on. What is known of network and ranks stays.
  void choose(std::vector<const plan::Variant *> candidates, size_t running);

  /// Called once a step, when the next is to be permitted. What was decided before need not have been done:
  /// `report.candidate` says what runs.
  Decision decide(const StepReport &report);

  const Estimator &estimates() const { return estimator; }
  /// How much longer all would have taken with the first candidate throughout.
  Time won() const { return ahead; }

private:
  struct Scored {
    Policy policy;
    size_t proposed = 0; // for the step that runs
    Times predicted;     // of that step
    Time score = 0;      // what it would have cost, old steps counting less
  };

  Hindsight look(const StepReport &report);
  Time lastKnown(size_t candidate, size_t current, Time now) const;
  void correct(const StepReport &report);
  void score(const Hindsight &seen, const simulate::Scenario &network);
  Time swapCost(size_t from, size_t to, const Hindsight &seen, const simulate::Scenario &network) const;

  Forecast forecast;
  Estimator estimator;
  Phase phase;
  History history;
  size_t turn = 0; // which candidate is looked at even if it seems too long
  std::vector<Scored> policies;
  std::vector<int64_t> corrections; // by candidate, in 1024ths
  std::vector<int64_t> measured;    // by candidate: how often, at most 8
  size_t leader = 0;
  size_t before = 0; // what ran when the last decision was made
  size_t left = 0;   // and before that
  Time moving = 0;   // what it took to move units in the last swap that did
  Time ahead = 0;
  Regimes regimes;
};

} // namespace pipec::adapt
