// A forecast simulates how long a step of each candidate takes on a network.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/simulate/Scenario.h"

#include <vector>

namespace pipec::adapt {

using plan::Time;

class Forecast {
public:
  explicit Forecast(std::vector<const plan::Variant *> candidates);

  size_t count() const { return candidates.size(); }
  /// The number of instructions of a candidate's step on all ranks, which is the cost of simulating it.
  int64_t size(size_t candidate) const { return sizes[candidate]; }
  /// The span of a candidate as compiled; if that is unknown, its proven makespan.
  Time span(size_t candidate) const {
    const plan::Certificate &own = candidates[candidate]->certificate;
    return own.span > 0 ? own.span : own.makespan;
  }

  /// Time per step of `steps` steps in a row from the network's beginning on, without the first; at least two steps.
  Time stepTime(size_t candidate, const simulate::Scenario &network, int64_t steps) const;
  /// Duration of a step that follows a step on the network `before`. `then`, whose links do not repeat, holds from when
  /// the first rank begins the step.
  Time nextStep(size_t candidate, const simulate::Scenario &before, const simulate::Scenario &then) const;
  /// Shards of each rank, the same for all candidates.
  int32_t shards() const { return candidates.empty() ? 1 : candidates.front()->shards(); }
  /// Whether shards exchange units in a swap between two candidates.
  bool moves(size_t from, size_t to) const { return candidates[from]->portions != candidates[to]->portions; }
  /// How much longer two steps take because of the swap between them. `alone`: duration of the second step without a
  /// swap.
  Time swapCost(size_t from, size_t to, Time alone, const simulate::Scenario &network) const;
  /// Duration of a step of `to` after a step of `from`, defined as for measured steps (simulate/Steps.h).
  Time stepBehind(size_t from, size_t to, const simulate::Scenario &network) const;

private:
  std::vector<Time> ends(const std::vector<size_t> &steps, const simulate::Scenario &network) const;

  std::vector<const plan::Variant *> candidates;
  std::vector<int64_t> sizes;
};

} // namespace pipec::adapt
