// One process of a run, from meeting the others to its report. Threads: the one that calls issues the program, one runs
// the device's queues, one runs all sockets and timers.
#pragma once

#include "runtime/device/Pace.h"
#include "runtime/plan/Plan.h"
#include "runtime/transport/host/Meeting.h"

#include <string>

namespace pipec::runtime {

/// What all processes of a run have in common.
struct RunOptions {
  int64_t steps = 1;
  std::string stage = "synthetic"; // what computes: MakeStage.h
  Pace pace = Pace::Carry;         // Real for every stage but the synthetic one
  plan::Time deadline = 0;         // of every wait; 0: none
  bool trace = false;
};

/// The body of a process that the launcher started: runs identity.rank of the plan's first variant and talks to the
/// launcher on `control` (Channel.h). Ends the process, with exit code 0, or 4 if the run failed.
[[noreturn]] void runWorker(const plan::Plan &plan, const Identity &identity, const RunOptions &options, int control);

} // namespace pipec::runtime
