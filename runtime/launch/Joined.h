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
  std::optional<Adaptation::Mode> adapt;                     // Controller::Setup
  ControlSocket *control = nullptr;                          // listening; null: none
  std::function<void(int64_t)> progressed;                   // Controller::Owner; called on the controller's thread
  std::function<std::string(const RunResult &)> report = {}; // Controller::Owner
  HostTalk *talk = nullptr;                                  // WorkerSetup

  Status refused = {}; // why this process refuses to run, which the others are told; ok: it runs
};

/// Runs this process's rank to its end. If the process refuses to run, tells the others, for at most ten seconds, and
/// returns the reason. Afterwards end the process with _exit, as after runWorker, unless it has a host. `result` is
/// filled on rank 0 alone.
Status runJoined(const JoinedSetup &setup, RunResult &result);

} // namespace pipec::runtime
