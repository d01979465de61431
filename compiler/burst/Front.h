// All that a plan can be, between the fastest and the one that keeps ranks least: the front of step time against device
// time over all widths of all layers, exactly.
#pragma once

#include "compiler/burst/Costs.h"

#include <memory>
#include <optional>

namespace pipec::burst {

class Front {
public:
  /// O(layers² × widths + layers × widths²) unions of fronts of the layers before, whose points may be many.
  explicit Front(const Problem &problem);
  ~Front();
  Front(Front &&) noexcept;

  /// Every pair of costs that no plan beats in one and equals in the other: time ascends, device time falls. One
  /// without layers.
  const std::vector<Cost> &costs() const;
  /// A plan of such costs.
  Plan plan(size_t point) const;
  /// The plan of least device time whose step takes no longer; absent: none is so fast.
  std::optional<Plan> within(Time limit) const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace pipec::burst
