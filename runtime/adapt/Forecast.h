// What a step of each candidate would take on a network: by walking it.
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
  /// How many instructions a step of a candidate has, on all ranks: what walking it costs.
  int64_t size(size_t candidate) const { return sizes[candidate]; }
  /// Of a step, as compiled; where that was not worked out, of the first, which is proven.
  Time span(size_t candidate) const {
    const plan::Certificate &own = candidates[candidate]->certificate;
    return own.span > 0 ? own.span : own.makespan;
  }

  /// Time per step where so many follow each other from the network's beginning on, without the first; at least two.
  Time stepTime(size_t candidate, const simulate::Scenario &network, int64_t steps) const;
  /// Time of a step behind one on the network `before`. `then`, whose links do not repeat, holds from when the first
  /// rank begins it.
  Time nextStep(size_t candidate, const simulate::Scenario &before, const simulate::Scenario &then) const;
  /// Of each rank of the candidates.
  int32_t shards() const { return candidates.empty() ? 1 : candidates.front()->shards(); }
  /// Whether shards exchange units in a swap from one to the other.
  bool moves(size_t from, size_t to) const { return candidates[from]->portions != candidates[to]->portions; }
  /// How much longer a step of one and then a step of the other, which takes `alone`, take for the swap between them.
  Time swapCost(size_t from, size_t to, Time alone, const simulate::Scenario &network) const;
  /// What a step of one takes behind a step of the other, as measured steps are (simulate/Steps.h).
  Time stepBehind(size_t from, size_t to, const simulate::Scenario &network) const;

private:
  std::vector<Time> ends(const std::vector<size_t> &steps, const simulate::Scenario &network) const;

  std::vector<const plan::Variant *> candidates;
  std::vector<int64_t> sizes;
};

} // namespace pipec::adapt
