// What the instructions of one rank hand to each other from queue to queue: a receive to the pass that takes what came,
// a pass to the send of what it makes. Nothing in a plan says so but what they are about, which rules P23 to P25 make
// unambiguous.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec::plan {

struct HandOvers {
  static constexpr uint32_t kNone = ~uint32_t(0);

  /// Of a program that keeps the rules of plans.
  explicit HandOvers(const Program &program);

  // By place in issue order, over all trips; kNone: nothing on another queue.
  std::vector<uint32_t> from; // of a pass: the receive of what it takes; of a send: the pass that makes what it sends
  std::vector<uint32_t> to;   // of a pass: the send of what it makes; of a receive: the pass that takes it
};

/// By queue: whether collectives of layers stand on it. Passes wait for these, too.
std::vector<bool> exchangeQueues(const Program &program);

/// Whether a wait is about something else than what is handed over and free transfer buffers: F and B that wait for W,
/// W for its B, F for gathers, and all that collectives and optimizer steps wait for. What an order file lets transfers
/// wait for besides cannot be told from those two.
inline bool isApart(const Program &program, const std::vector<bool> &exchanges, Kind kind, const Wait &wait) {
  if (isTransfer(kind))
    return false;
  return (rowOf(kind).gives == Payload::None && !plan::isHeader(kind)) || exchanges[wait.queue] ||
         program.queues[wait.queue].kind == QueueKind::Device;
}

} // namespace pipec::plan
