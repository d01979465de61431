// The line that shows the progress of a run, on a terminal only: step, time per step, predicted time, bubble rate.
#pragma once

#include "runtime/plan/Plan.h"

#include <chrono>

namespace pipec::piperun {

class Progress {
public:
  /// Shows nothing unless `wanted` and standard error is a terminal.
  Progress(const plan::Plan &plan, bool wanted);

  /// To call when all steps before `step` of `steps` are done.
  void reached(int64_t step, int64_t steps);
  /// Clears the line. To call before anything else is printed.
  void clear();

private:
  using Clock = std::chrono::steady_clock;
  bool on;
  double predicted; // milliseconds
  double busy;      // milliseconds of work in a step, of all ranks together, divided by the number of ranks
  Clock::time_point shown;
  int64_t shownStep = -1;
};

} // namespace pipec::piperun
