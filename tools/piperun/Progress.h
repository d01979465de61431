// The line that shows how a run goes, on a terminal only: step, time a step, the predicted time, bubble rate.
#pragma once

#include "runtime/plan/Plan.h"

#include <chrono>

namespace pipec::piperun {

class Progress {
public:
  /// Says nothing unless `wanted` and standard error is a terminal.
  Progress(const plan::Plan &plan, bool wanted);

  /// All steps before `step` of `steps` are done.
  void reached(int64_t step, int64_t steps);
  /// Before anything else is printed.
  void clear();

private:
  using Clock = std::chrono::steady_clock;
  bool on;
  double predicted; // milliseconds
  double busy;      // of all ranks together in a step, over the number of ranks
  Clock::time_point shown;
  int64_t shownStep = -1;
};

} // namespace pipec::piperun
