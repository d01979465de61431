// One round of planning anew, whether beside a run (`pipec replan`) or in virtual time (`pipec report --replan`): plans
// for what was measured, held against what may be chosen already.
#pragma once

#include "compiler/replan/Replan.h"
#include "runtime/adapt/Estimator.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipec {

/// What the estimates say of links and ranks.
spec::Measured measuredOf(const adapt::Estimator &estimates);

struct Candidate {
  std::string name;
  const plan::Variant *variant = nullptr;
};

struct Round {
  std::vector<std::pair<std::string, plan::Time>> predicted; // a step of each candidate, the old ones first
  Replanned best;                                            // of the new ones
  bool pays = false;                                         // it is that much shorter
  double gain = 0;                                           // the best old one's step over the best new one's, less 1
  std::optional<double> cutGain; // the best of all over the best with another cut, less 1; nothing: no layers to move
  Replanned recut;               // that one
};

/// `least`: the gain that pays. `cuts`: whether to say what another cut would gain. False after an error, which has
/// been said.
bool replanOnce(const Source &source, const plan::Plan &running, const std::vector<Candidate> &old,
                const spec::Measured &measured, double least, bool cuts, Round &round, Failure &failure);

} // namespace pipec
