// Finds the period of a network load that repeats, and what the network was like one period ago.
#pragma once

#include "runtime/adapt/StepReport.h"
#include "runtime/simulate/Scenario.h"

#include <deque>
#include <optional>

namespace pipec::adapt {

class Phase {
public:
  void take(const StepReport &report);

  /// The period at which the durations of transfers are most similar to themselves, by autocorrelation over equal parts
  /// of time: the correlation is at least one half, and the period was seen twice. 0: there is none.
  Time period() const;

  /// The expected links from the end of the last report on, at time 0: as one period ago. Nothing without a period.
  std::optional<simulate::Scenario> expected() const;

private:
  static constexpr size_t kRemembered = 1024; // slices
  std::deque<Slice> slices;                   // without gaps
};

} // namespace pipec::adapt
