// One process of a run, from meeting the others to its report. The calling thread issues the programs. Other threads
// run the device's queues, run all sockets and timers, and, with low priority, prepare plans that are to be swapped in.
#pragma once

#include "runtime/device/Pace.h"
#include "runtime/interpreter/CallPoint.h"
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
  std::string stage = "synthetic";                   // what computes (runtime/stage/MakeStage.h)
  Pace pace = Pace::Carry;                           // Real for every stage but the synthetic one
  plan::Time deadline = 0;                           // picoseconds that a wait may last; 0: no limit
  plan::Time rendezvous = 0;                         // picoseconds until all processes must have met; 0: no limit
  bool trace = false;                                // whether events are reported to the controller
  std::string ownTrace;                              // the file to which the process writes its events; empty: none
  int32_t attempt = 0;                               // how often a launcher has started all processes before
  std::string checkpoint;                            // folder; empty: none
  int64_t every = 0;                                 // steps from one checkpoint to the next; 0: only one at the end
  std::shared_ptr<const simulate::Scenario> network; // links and ranks that differ from the plan's; null: none do
  bool realNetwork = false; // whether transfers take what the sockets take; without a scenario only
  bool measure = false;     // whether processes keep what they measure, for the controller to ask for
  std::string keepsCut = "the run has no --checkpoint"; // why no layer can move to another stage; empty: they can
  std::vector<std::vector<CallPoint>> calls;            // of the plan's variants, by rank; empty: their beginnings

  /// The most bytes that a transfer carries.
  plan::Bytes payload() const { return network || realNetwork ? INT64_MAX : payloadLimit(pace); }
};

struct WorkerSetup {
  std::shared_ptr<const plan::Plan> plan; // loaded and proved
  Identity identity;
  RunOptions options;
  asio::ip::address listenOn; // where peers reach the process
  bool catchSignals = false;  // whether SIGINT and SIGTERM ask the controller to end the run; a second one kills
};

/// The body of a process: runs identity.rank of the plan and talks to the controller on `control`. It runs `io`, the
/// io_context of that channel, on a thread of its own. Call it once in a process. On return its threads still run, in
/// objects that are never freed, so the caller must end the process with _exit. The controller has then been told of a
/// failure.
Status runWorker(const WorkerSetup &setup, asio::io_context &io, const std::shared_ptr<Channel> &control);

/// "SIGINT" or "SIGTERM", the signals that end a run in order.
const char *nameOf(int signal);

/// Names this machine and its last boot. Processes with the same id read the same CLOCK_MONOTONIC.
std::string bootId();

} // namespace pipec::runtime
