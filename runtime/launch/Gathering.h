// gather() brings a process together with the others before the first step. The process listens, tells the controller
// where, and receives the addresses of all. It connects to the processes that it exchanges data with, and measures how
// far its clock is ahead of the controller's.
#pragma once

#include "runtime/launch/Mailbox.h"
#include "runtime/launch/Worker.h"

namespace pipec::runtime {

struct Gathering {
  messages::Table table;   // from the controller: endpoints, the first step, the files to resume from
  Sockets sockets;         // connections with peers
  int64_t clockOffset = 0; // nanoseconds that this machine's clock is ahead of the controller's
};

/// Blocks until all peers are connected. `reduces`: whether some variant has an all-reduce. If the run fails meanwhile,
/// the status is that of `failure`.
Status gather(const WorkerSetup &setup, bool reduces, asio::io_context &io, Channel &channel, Mailbox &mailbox,
              Failure &failure, Gathering &gathering);

} // namespace pipec::runtime
