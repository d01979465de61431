// A process that torchrun, Slurm or Open MPI has started: `piperun` without --local. The controller of the run lives in
// rank 0's process, on a thread of its own; the others reach it over TCP, through the same handshake as their peers,
// and under its keys.
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
  int64_t swapEvery = 0;
  std::optional<Manifest> resume;          // rank 0's
  ControlSocket *control = nullptr;        // rank 0's
  std::function<void(int64_t)> progressed; // rank 0's; called on the controller's thread
};

/// Runs this process's rank to its end, as runWorker does: end the process with _exit afterwards. `result` is filled on
/// rank 0 alone.
Status runJoined(const JoinedSetup &setup, RunResult &result);

} // namespace pipec::runtime
