// What a step of each candidate would take on a network: by walking it.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/simulate/Scenario.h"

#include <vector>

namespace pipec::adapt {

using plan::Time;

class Forecast {
public:
  /// At most so many instructions are walked for all candidates together, or two steps of each.
  explicit Forecast(std::vector<const plan::Variant *> candidates, int64_t budget = 100'000);

  size_t count() const { return candidates.size(); }
  /// Time per step where steps follow each other.
  Time stepTime(size_t candidate, const simulate::Scenario &network) const {
    return stepTime(candidate, network, steps);
  }
  /// The time of the second step from the network's beginning on.
  Time secondStep(size_t candidate, const simulate::Scenario &network) const { return stepTime(candidate, network, 2); }
  /// How much longer a step of one and then a step of the other take for the swap between them.
  Time swapCost(size_t from, size_t to, const simulate::Scenario &network) const;

private:
  Time stepTime(size_t candidate, const simulate::Scenario &network, int64_t count) const;
  std::vector<Time> ends(const std::vector<size_t> &steps, const simulate::Scenario &network) const;

  std::vector<const plan::Variant *> candidates;
  int64_t steps = 2; // of each, that are walked
};

} // namespace pipec::adapt
