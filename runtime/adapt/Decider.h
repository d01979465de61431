// The decider chooses the variant of each step. It follows the policy that would have cost least so far.
#pragma once

#include "runtime/adapt/Estimator.h"
#include "runtime/adapt/Forecast.h"
#include "runtime/adapt/Phase.h"
#include "runtime/adapt/Policy.h"
#include "runtime/adapt/Regimes.h"
#include "runtime/adapt/StepReport.h"

namespace pipec::adapt {

/// What a step is to run, and why.
struct Decision {
  size_t from = 0, to = 0; // candidates
  Time at = 0;             // when the decision was made: the end of the measurements that it used
  std::string policy, why;
  Times predicted;   // by candidate: duration of the step, by the policy
  int64_t dwell = 0; // number of steps for which the choice is expected to stay the best
};

class Decider {
public:
  explicit Decider(std::vector<const plan::Variant *> candidates, size_t first = 0);

  /// From now on chooses among other candidates. Keeps what is known of the network and the ranks.
  void choose(std::vector<const plan::Variant *> candidates, size_t running);

  /// Called once per step, when the next is to be permitted. Earlier decisions need not have been carried out:
  /// `report.candidate` says what runs.
  Decision decide(const StepReport &report);

  const Estimator &estimates() const { return estimator; }
  /// How much longer the run would have taken with the first candidate throughout.
  Time won() const { return ahead; }

private:
  struct Scored {
    Policy policy;
    size_t proposed = 0; // its choice for the step that runs
    Times predicted;     // of that step
    Time score = 0;      // what the policy would have cost; older steps count less
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
  size_t turn = 0; // the candidate to simulate next even if it seems too slow
  std::vector<Scored> policies;
  std::vector<int64_t> corrections; // by candidate, in 1024ths
  std::vector<int64_t> measured;    // by candidate: how often it was measured, at most 8
  size_t leader = 0;
  size_t before = 0; // what ran when the last decision was made
  size_t left = 0;   // what ran before that
  Time moving = 0;   // time that moving units took in the last swap that moved any
  Time ahead = 0;
  Regimes regimes;
};

} // namespace pipec::adapt
