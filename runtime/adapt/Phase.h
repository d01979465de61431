// A load that repeats: its period, and what the network was like one period ago.
#pragma once

#include "runtime/adapt/StepReport.h"
#include "runtime/simulate/Scenario.h"

#include <deque>
#include <optional>

namespace pipec::adapt {

class Phase {
public:
  void take(const StepReport &report);

  /// The lag at which what transfers took is most like itself, by autocorrelation over equal parts of time; at least
  /// one half, and seen twice. 0: there is none.
  Time period() const;

  /// What the links should be like from the end of the last report on: as a period ago. Times count from there. Nothing
  /// without a period.
  std::optional<simulate::Scenario> expected() const;

private:
  static constexpr size_t kRemembered = 1024; // slices
  std::deque<Slice> slices;                   // one behind the other
};

} // namespace pipec::adapt
