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
  HostTalk *talk = nullptr;   // talks to the host program (RunOptions::hosting); outlives the worker; null: no host
  std::string leader;  // the process that has the controller, for messages: "rank 0 at first", "piperun (pid 17)"
  bool joined = false; // whether a launcher has started the processes: rank 0 leads, and each has an address
};

/// The body of a process: runs identity.rank of the plan and talks to the controller on `control`. Runs `io`, the
/// io_context of that channel, on a thread of its own. On return the controller has been told of a failure. Without a
/// host, call this once in a process; its threads still run on return, in objects that are never freed, so the caller
/// must end the process with _exit. With a host nothing runs any more on return, and `io` has stopped.
Status runWorker(const WorkerSetup &setup, asio::io_context &io, const std::shared_ptr<Channel> &control);

/// "SIGINT" or "SIGTERM", the signals that end a run in order.
const char *nameOf(int signal);

/// Names this machine and its last boot. Processes with the same id read the same CLOCK_MONOTONIC.
std::string bootId();

} // namespace pipec::runtime
