// Runs a process that torchrun, Slurm or Open MPI has started: `piperun` without --local. The controller of the run
// lives in rank 0's process, on a thread of its own. The other processes reach it over TCP, with the same handshake and
// sealing as between peers.
#pragma once

#include "runtime/launch/Control.h"
#include "runtime/launch/Controller.h"
#include "runtime/launch/Environment.h"

namespace pipec::runtime {

struct JoinedSetup {
  std::shared_ptr<const plan::Plan> plan; // loaded and proved
  std::array<uint8_t, 32> planHash{};
  RunOptions options;
  Environment environment;
  std::string secret; // empty: none

  // Used on rank 0 alone.
  int64_t swapEvery = 0;                                     // Controller::Setup
  std::optional<Manifest> resume;                            // Controller::Setup
  std::optional<Adaptation::Mode> adapt;                     // likewise
  ControlSocket *control = nullptr;                          // listening; null: none
  std::function<void(int64_t)> progressed;                   // Controller::Owner; called on the controller's thread
  std::function<std::string(const RunResult &)> report = {}; // likewise
  HostTalk *talk = nullptr;                                  // WorkerSetup

  Status refused = {}; // why this process has no run, which the others are told
};

/// Runs this process's rank to its end; of a run that is refused, tells the others, for ten seconds at most, and
/// returns why. As after runWorker, end the process with _exit then, unless it has a host. `result` is filled on rank 0
/// alone.
Status runJoined(const JoinedSetup &setup, RunResult &result);

} // namespace pipec::runtime
