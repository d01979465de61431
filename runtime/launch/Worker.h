// One process of a run, from meeting the others to its report. Threads: the one that calls issues the programs, one
// runs the device's queues, one runs all sockets and timers, and one of low priority prepares plans that are to be
// swapped in.
#pragma once

#include "runtime/device/Pace.h"
#include "runtime/launch/Channel.h"
#include "runtime/plan/Plan.h"
#include "runtime/simulate/Scenario.h"
#include "runtime/transport/host/Meeting.h"

#include <memory>
#include <string>

namespace pipec::runtime {

/// What all processes of a run have in common.
struct RunOptions {
  int64_t steps = 1;
  std::string stage = "synthetic";                   // what computes: MakeStage.h
  Pace pace = Pace::Carry;                           // Real for every stage but the synthetic one
  plan::Time deadline = 0;                           // of every wait; 0: none
  plan::Time rendezvous = 0;                         // until all processes have met; 0: no limit
  bool trace = false;                                // events are reported to the controller
  std::string ownTrace;                              // the process writes its events to this file; empty: it does not
  int32_t attempt = 0;                               // how often a launcher has started all processes before
  std::string checkpoint;                            // folder; empty: none
  int64_t every = 0;                                 // steps from one checkpoint to the next; 0: only one at the end
  std::shared_ptr<const simulate::Scenario> network; // what links and ranks are like; none: as the plan has them
  bool realNetwork = false;                          // no wire is emulated; counts where there is no scenario

  /// What a transfer carries at most.
  plan::Bytes payload() const { return network || realNetwork ? INT64_MAX : payloadLimit(pace); }
};

struct WorkerSetup {
  std::shared_ptr<const plan::Plan> plan; // loaded and proved
  Identity identity;
  RunOptions options;
  asio::ip::address listenOn; // peers reach the process there
  bool catchSignals = false;  // SIGINT and SIGTERM ask the controller to end the run; a second one kills
};

/// The body of a process: runs identity.rank of the plan and talks to the controller on `control`, whose io_context
/// `io` it runs on a thread of its own from then on. Call it once in a process: on return its threads still stand in
/// objects that are never freed, so the caller ends the process with _exit. A failure has been told to the controller.
Status runWorker(const WorkerSetup &setup, asio::io_context &io, const std::shared_ptr<Channel> &control);

/// "SIGINT" or "SIGTERM", which end a run in order.
const char *nameOf(int signal);

/// Identifies this machine since it was started: processes with the same id read the same clock.
std::string bootId();

} // namespace pipec::runtime
