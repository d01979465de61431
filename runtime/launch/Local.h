// Runs all processes of a plan on this machine: `piperun --local`. The launcher, in which the controller is, forks one
// process a rank. These share the plan that it has loaded and proved, and none outlives it.
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
  std::optional<Adaptation::Mode> adapt;   // Controller::Setup
  std::optional<Manifest> resume;          // Controller::Setup
  int64_t restarts = 0;                    // how often a run that fails may begin again from its last checkpoint
  ControlSocket *control = nullptr;        // listening; null: none
  std::function<void(int64_t)> progressed; // Controller::Owner
};

struct LocalResult {
  RunResult run; // of the last attempt
  std::vector<pid_t> pids;
  std::vector<int> exits;         // exit code of each process, or minus the signal that ended it
  std::vector<double> cpuSeconds; // of each process, user and system
  double wallSeconds = 0;         // from the first fork to the last end
  bool stopped = false;           // whether somebody asked for the end
  int64_t restarts = 0;
  int64_t lostSteps = 0; // steps that were done and had to be done again after a restart
  /// With a trace: the events of all attempts that later ones built on, so each step once. Times count from the first
  /// start.
  std::vector<trace::Event> events;
  std::vector<trace::Decision> decisions; // of the same attempts
};

/// Runs the plan. `started` is called once all processes of an attempt have met and been told to start. On failure
/// (Code::Run) the message has a line per known cause, the most telling first. SIGINT and SIGTERM end the run in order
/// after the steps that are permitted; a second one ends it at once. Call this while the process has one thread.
Status runLocal(const LocalSetup &setup, const std::function<void(const LocalResult &)> &started, LocalResult &result);

} // namespace pipec::runtime
