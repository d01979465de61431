// How a process comes together with the others before the first step: it listens, tells the controller where, hears
// where everybody is, connects to those that it exchanges data with, and finds how far its clock is from the
// controller's.
#pragma once

#include "runtime/launch/Mailbox.h"
#include "runtime/launch/Worker.h"

namespace pipec::runtime {

struct Gathering {
  Message table;           // the controller's: endpoints, the first step, the files to resume from
  Sockets sockets;         // connected, by rank
  int64_t clockOffset = 0; // nanoseconds that this machine's clock is ahead of the controller's
};

/// `reduces`: some variant has an all-reduce. If the run has failed meanwhile, `failure` says why.
Status gather(const WorkerSetup &setup, bool reduces, asio::io_context &io, Channel &channel, Mailbox &mailbox,
              const Failure &failure, Gathering &gathering);

} // namespace pipec::runtime
