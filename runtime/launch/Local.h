// Starts all processes of a plan on this machine and sees them to their end: `piperun --local`. The launcher forks one
// process a rank, which shares the plan it has loaded and proved; no process outlives it. The controller of the run is
// in the launcher.
#pragma once

#include "runtime/launch/Control.h"
#include "runtime/launch/Controller.h"

#include <sys/types.h>

namespace pipec::runtime {

struct LocalSetup {
  std::shared_ptr<const plan::Plan> plan; // loaded and proved
  std::array<uint8_t, 32> planHash{};     // compared at the handshakes
  RunOptions options;
  int64_t swapEvery = 0;                   // Controller::Setup
  std::optional<Manifest> resume;          // where to begin
  int64_t restarts = 0;                    // so often a run that fails begins again from its last checkpoint
  ControlSocket *control = nullptr;        // listening; null: none
  std::function<void(int64_t)> progressed; // Controller::Owner
};

struct LocalResult {
  RunResult run; // of the last attempt
  std::vector<pid_t> pids;
  std::vector<int> exits;         // exit code of each process, or minus the signal that ended it
  std::vector<double> cpuSeconds; // of each process, user and system
  double wallSeconds = 0;         // from the first fork to the last end
  bool stopped = false;           // somebody asked for its end
  int64_t restarts = 0;
  int64_t lostSteps = 0; // done, and done again after a restart
  /// With a trace: each step once, as the attempt did it from which the run went on, in time since the first start.
  std::vector<trace::Event> events;
};

/// Runs the plan. `started` is called once all processes have met and been told to start. On failure (Code::Run) the
/// message has a line for each thing known of the cause, the most telling first. Call it while the process has one
/// thread. SIGINT and SIGTERM end the run in order after the steps that are permitted; a second one ends it at once.
Status runLocal(const LocalSetup &setup, const std::function<void(const LocalResult &)> &started, LocalResult &result);

} // namespace pipec::runtime
