// The exact Pareto front of step time and device time over all widths of all layers: from the fastest plan to the plan
// with the least device time.
#pragma once

#include "compiler/burst/Costs.h"

#include <memory>
#include <optional>

namespace pipec::burst {

class Front {
public:
  /// O(layers² × widths + layers × widths²) unions of fronts of earlier layers, which may have many points.
  explicit Front(const Problem &problem);
  ~Front();
  Front(Front &&) noexcept;

  /// All Pareto-optimal costs: time ascends, device time falls. One point if there are no layers.
  const std::vector<Cost> &costs() const;
  /// A plan with these costs.
  Plan plan(size_t point) const;
  /// The plan with the least device time that takes no longer than `limit`; absent: no plan is that fast.
  std::optional<Plan> within(Time limit) const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace pipec::burst
