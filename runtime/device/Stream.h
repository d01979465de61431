// The instructions of one step, of a whole program or of one queue, in issue order and still rolled, with all that can
// be known of them in advance. Walk is the one place where the runtime unrolls: the interpreter walks a program's
// stream for a device that wants every instruction issued, a device that runs its queues itself walks theirs.
#pragma once

#include "runtime/device/Device.h"

#include <memory>
#include <vector>

namespace pipec::runtime {

struct Stream {
  struct Item {
    const plan::Operation *operation;
    const Slot *in;  // of each microbatch; null: none
    const Slot *out; // likewise; of a transfer: its slot
    QueueId queue;
    uint32_t firstWait;
    uint32_t waits;
    int32_t microbatch;
    int32_t microbatchStride;
  };
  struct Wait {
    QueueId queue;
    bool previousStep;
    int64_t base;
    int64_t stride;
  };
  std::vector<Item> items;
  std::vector<Wait> waits;
  std::vector<plan::Segment> segments; // none empty
  int64_t executed = 0;                // instructions in a step
};

/// Stands at one instruction of a stream, which outlives it.
class Walk {
public:
  Walk() = default;
  explicit Walk(const Stream &stream) : Walk(at(stream, 0)) {}
  /// At the n-th instruction of the step.
  Walk(const Stream &stream, int64_t n);

  bool done() const { return item == nullptr; }
  const Stream::Item &at() const { return *item; }
  int64_t trip() const { return round; }
  int64_t microbatch() const { return item->microbatch + item->microbatchStride * round; }
  Slot in() const { return item->in ? item->in[microbatch()] : Slot{}; }
  Slot out() const { return item->out ? item->out[microbatch()] : Slot{}; }
  void next() {
    if (++item != end)
      return;
    if (++round != trips)
      item = begin;
    else
      *this = at(*stream, segment + 1);
  }

private:
  /// At the first instruction of a segment, by value: who walks keeps where it stands in registers.
  static Walk at(const Stream &stream, size_t segment);

  const Stream *stream = nullptr;
  const Stream::Item *item = nullptr, *begin = nullptr, *end = nullptr; // of the segment
  int64_t round = 0, trips = 0;
  size_t segment = 0;
};

/// One step of a program as a device gets it.
struct Round {
  std::shared_ptr<const void> owner; // of the streams and all that they refer to
  const Stream *whole = nullptr;
  const std::vector<Stream> *queues = nullptr; // the same, by queue of the device
  int64_t step = 0;
  int64_t epoch = 0;
  std::vector<int64_t> starts;   // of each queue: what it counts once all steps before this one are done
  std::vector<int64_t> previous; // likewise, of the step before
  bool fenced = true;            // the step before ran another program, or none: its counts mean nothing now

  /// What the queue that a wait names must have counted, since the run began; not above 0: the wait is met.
  int64_t due(const Stream::Wait &wait, int64_t trip) const {
    int64_t count = wait.base + wait.stride * trip;
    if (count <= 0 || (wait.previousStep && fenced))
      return 0;
    return (wait.previousStep ? previous : starts)[wait.queue] + count;
  }
};

} // namespace pipec::runtime
