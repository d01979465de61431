// Starts all processes of a plan on this machine and sees them to their end: `piperun --local`. The launcher forks one
// process a rank, which shares the plan it has loaded and verified; no process outlives it.
#pragma once

#include "runtime/launch/Report.h"
#include "runtime/launch/Worker.h"

#include <functional>
#include <sys/types.h>

namespace pipec::runtime {

struct LocalResult {
  std::vector<RankReport> ranks; // complete only if the run succeeded
  std::vector<pid_t> pids;
  std::vector<int> exits;         // exit code of each process, or minus the signal that ended it
  std::vector<double> cpuSeconds; // of each process, user and system
  double wallSeconds = 0;         // from the first fork to the last end
};

/// Runs the plan's first variant. `planHash` is compared at the handshakes. `started` is called once all processes have
/// met and been told to start. On failure (Code::Run) the message has a line for each thing known of the cause, the
/// most telling first. Call it while the process has one thread.
Status runLocal(const plan::Plan &plan, const std::array<uint8_t, 32> &planHash, const RunOptions &options,
                const std::function<void(const LocalResult &)> &started, LocalResult &result);

} // namespace pipec::runtime
