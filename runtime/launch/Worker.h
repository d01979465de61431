// One process of a run, from meeting the others to its report. The calling thread issues the programs. Other threads
// run the device's queues, run all sockets and timers, and, with low priority, prepare plans that are to be swapped in.
#pragma once

#include "runtime/backend/RunOptions.h"
#include "runtime/launch/Channel.h"
#include "runtime/launch/HostTalk.h"
#include "runtime/transport/host/Meeting.h"

namespace pipec::runtime {

struct WorkerSetup {
  std::shared_ptr<const plan::Plan> plan; // loaded and proved
  Identity identity;
  RunOptions options;
  asio::ip::address listenOn; // where peers reach the process
  bool catchSignals = false;  // whether SIGINT and SIGTERM ask the controller to end the run; a second one kills
  HostTalk *talk = nullptr;   // of the program around it (RunOptions::hosting), which outlives it
  std::string leader;         // who has the controller, for messages: "rank 0 at first", "piperun (pid 17)"
  bool joined = false;        // whether that is rank 0, and processes have addresses of their own
};

/// The body of a process: runs identity.rank of the plan and talks to the controller on `control`. It runs `io`, the
/// io_context of that channel, on a thread of its own. The controller has been told of a failure when it returns.
/// Without hosting: call it once in a process; on return its threads still run, in objects that are never freed, so the
/// caller must end the process with _exit. With it nothing of it is left, and `io` has stopped.
Status runWorker(const WorkerSetup &setup, asio::io_context &io, const std::shared_ptr<Channel> &control);

/// "SIGINT" or "SIGTERM", the signals that end a run in order.
const char *nameOf(int signal);

/// Names this machine and its last boot. Processes with the same id read the same CLOCK_MONOTONIC.
std::string bootId();

} // namespace pipec::runtime
