// The instructions of one step, of a whole program or of one queue, in issue order and still rolled, with all that can
// be known of them in advance. Walk is the one place where the runtime unrolls: the interpreter walks a program's
// stream for a device that wants every instruction issued, a device that runs its queues itself walks theirs.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/Layout.h"

#include <memory>
#include <vector>

namespace pipec::runtime {

struct Stream {
  struct Item {
    const plan::Operation *operation;
    const Slot *in;  // of the first trip's microbatch, in a table of all microbatches; null: none. Of a send: the
                     // receiver's slot, empty where that memory cannot be reached from here
    const Slot *out; // likewise; of a transfer: its slot. A reshard takes from the one
                     // and brings to the other
    QueueId queue;
    uint32_t firstWait;
    uint32_t waits;
    int32_t microbatch;
    int32_t microbatchStride;
    bool pauses = true;  // the queue does not just go on behind this: what follows waits, or somebody waits for this
    bool heads = false;  // an overlapped pair, whose two follow it in the stream
    bool awaited = true; // of a program's stream: in some trip a wait, of this step or the next, names its count
    plan::Window window = {}; // of its wait, for pieces

    int64_t microbatchOf(int64_t trip) const { return microbatch + microbatchStride * trip; }
    Slot slot(const Slot *first, int64_t trip) const { return first ? first[microbatchStride * trip] : Slot{}; }
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
  int64_t piece = 0;                   // of the compute queue: atoms of a piece of the rank's job
  std::vector<plan::Time> windows;     // likewise: the lengths of those of the step, the longest first
  // Of a program's stream:
  int64_t microbatches = 0;        // of a step
  std::vector<int32_t> recomputed; // the stages whose forwards run again
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
  int64_t microbatch() const { return item->microbatchOf(round); }
  Slot in() const { return item->slot(item->in, round); }
  Slot out() const { return item->slot(item->out, round); }
  void next() {
    nextHere();
    if (round == trips)
      *this = at(*stream, segment + 1);
  }
  /// The same within a segment, where no more than that has to be looked at.
  void nextHere() {
    const bool wraps = ++item == end;
    item = wraps ? begin : item;
    round += wraps;
  }
  /// Instructions of the segment from here on, this one included.
  int64_t left() const { return (trips - round) * (end - begin) - (item - begin); }

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
  std::vector<int64_t> starts;            // of each queue: what it counts once all steps before this one are done
  std::vector<int64_t> previous;          // likewise, of the step before
  bool fenced = true;                     // the step before ran another program, or none: its counts mean nothing now
  const plan::Variant *variant = nullptr; // whose program it is, where ranks have shards
  int64_t evaluation = 0;                 // Label::evaluation

  /// What the queue that a wait names must have counted, since the run began; not above 0: the wait is met.
  int64_t due(const Stream::Wait &wait, int64_t trip) const {
    int64_t count = wait.base + wait.stride * trip;
    if (count <= 0 || (wait.previousStep && fenced))
      return 0;
    return (wait.previousStep ? previous : starts)[wait.queue] + count;
  }
  /// What is its own of an operation of the program on each of the shards; null: there is one.
  const plan::OwnCost *ownOf(const plan::Operation &operation, const plan::Place &place) const {
    if (!variant)
      return nullptr;
    const plan::Program &program = variant->programs[size_t(place.rank)];
    return &variant->own[placeIn(place)].operations[size_t(&operation - program.operations.data())];
  }
};

/// A step of one instruction, which waits for nothing: its `whole` is that of the queue that it is issued on.
std::shared_ptr<const Round> single(const Label &label, Slot in, Slot out);

} // namespace pipec::runtime
