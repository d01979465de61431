// Transfers between ranks, each on a queue of the device. A transfer starts when its send and its receive are both at
// the heads of their queues with their waits met, and the link is free. So a payload never travels before its receive
// is posted; the proof that a plan ends relies on no earlier start. Transfers from one rank to another match in the
// order of their queues. Collectives are sums of numbers, and sums of replicated layers. Reshards exist only with
// devices that run whole steps.
#pragma once

#include "runtime/device/Summand.h"

namespace pipec::runtime {

class Transport {
public:
  virtual ~Transport() = default;

  /// Issues the send of `slot` to label.operation->peer on `queue`. Returns at once, or when the queue has room. The
  /// send is complete when its wire is free; until then `slot` must not be written. `landing`: the receiver's slot, if
  /// its memory is mapped here, for transports that need it. NCCL: ncclSend on the queue's stream and communicator.
  virtual void send(QueueId queue, const Label &label, Slot slot, Slot landing) = 0;

  /// Issues the receive from label.operation->peer into `slot`; returns as send() does. The receive is complete when
  /// the data are there; the queue goes on already when the wire is free. If another transfer arrives than `label`
  /// names, the run fails. NCCL: ncclRecv on the queue's stream and communicator.
  virtual void recv(QueueId queue, const Label &label, Slot slot) = 0;

  /// Issues the sum of one number of each rank: of all ranks, or of those of the group label.operation->group.
  /// `summand`, which must outlive the sum, is asked for this rank's number when the rank comes to the sum, and is told
  /// the total. The sum starts once all its ranks have come to it, and is complete when the total is there. If ranks
  /// come to different sums, the run fails. NCCL: ncclAllReduce of one ncclFloat64, in place, on the queue's stream and
  /// a communicator of the same ranks.
  virtual void allReduce(QueueId queue, const Label &label, Summand &summand) = 0;

  /// Issues a collective of layers (plan::isOfLayers) between the replicas of this rank, in place in the memory of
  /// `stage`, which must outlive it. It is an all-reduce or one of its halves; after the first half each replica has
  /// the sums of its share (Shares.h). It starts and fails as the sum above does. NCCL: ncclReduce and ncclBroadcast of
  /// each share, grouped.
  virtual void exchange(QueueId queue, const Label &label, Summand &stage) = 0;

  // A peer that dies, closes its connection or stays silent on the network (3 s) raises the rank's Failure, with a
  // message that names rank, instruction and peer. Nothing is retried. A peer that lives but does not come in time is
  // found by launch (launch/waits). NCCL: ncclCommGetAsyncError, then ncclCommAbort.
};

} // namespace pipec::runtime
