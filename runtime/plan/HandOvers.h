// Hand-overs of data between instructions on different queues of one rank: from a receive to the pass that takes the
// data, and from a pass to the send of its result. A plan does not store them. They follow from the stages and
// microbatches of the instructions, which rules P23 to P25 make unambiguous.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec::plan {

struct HandOvers {
  static constexpr uint32_t kNone = ~uint32_t(0);

  /// The program must keep the rules of plans.
  explicit HandOvers(const Program &program);

  // By position in issue order, over all trips. kNone: no hand-over from or to another queue.
  std::vector<uint32_t> from; // of a pass: the receive of what it takes; of a send: the pass that makes what it sends
  std::vector<uint32_t> to;   // of a pass: the send of what it makes; of a receive: the pass that takes it
};

/// By queue: whether it has collectives of layers. Passes wait for these, too.
std::vector<bool> exchangeQueues(const Program &program);

/// Whether a wait has another reason than a hand-over or a free transfer buffer: F and B that wait for W, W for its B,
/// F for gathers, and all waits of collectives and optimizer steps. A wait that an order file adds to a transfer cannot
/// be told from a hand-over or a buffer, and does not count.
inline bool isApart(const Program &program, const std::vector<bool> &exchanges, Kind kind, const Wait &wait) {
  if (isTransfer(kind))
    return false;
  return (rowOf(kind).gives == Payload::None && !plan::isHeader(kind)) || exchanges[wait.queue] ||
         program.queues[wait.queue].kind == QueueKind::Device;
}

} // namespace pipec::plan
