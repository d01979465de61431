// Transfers between ranks, each on a queue of the device. A transfer starts when both of its ends stand at the heads of
// their queues with their waits met and the link is free, so a payload never travels before its receive is posted: the
// proof of progress assumes no more than that. Transfers from one rank to another match in the order of their queues.
// Other collectives join this interface with data parallelism.
#pragma once

#include "runtime/device/Summand.h"

namespace pipec::runtime {

class Transport {
public:
  virtual ~Transport() = default;

  /// Issues the send of `slot` to label.operation->peer on `queue`; returns at once (or when the queue has room). It
  /// counts as complete when its wire is free; until then `slot` must not be written. NCCL: ncclSend on the queue's
  /// stream and communicator.
  virtual void send(QueueId queue, const Label &label, Slot slot) = 0;

  /// Issues the receive from label.operation->peer into `slot`, likewise; it counts as complete when the data are
  /// there, the queue going on from when the wire is free. What arrives must be the transfer that `label` names, or the
  /// run ends. NCCL: ncclRecv on the queue's stream and communicator.
  virtual void recv(QueueId queue, const Label &label, Slot slot) = 0;

  /// Issues the sum, over all processes, of one number. `summand` is asked for this rank's number when the rank comes
  /// to the sum, and told the total when it is there. The sum starts once all processes have come to it and counts as
  /// complete when the total is there. All must come to the same sum, or the run ends. `summand` outlives it. NCCL:
  /// ncclAllReduce of one ncclFloat64, in place, on the queue's stream and a communicator of all processes.
  virtual void allReduce(QueueId queue, const Label &label, Summand &summand) = 0;

  // A peer that dies, closes its connection or stays silent on the network (3 s) raises the rank's Failure with a
  // message that names rank, instruction and peer. Nothing is retried. Who does not come in time is the business of
  // launch's watchdog, which asks. NCCL: ncclCommGetAsyncError, then ncclCommAbort.
};

} // namespace pipec::runtime
