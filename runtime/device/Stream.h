// A stream has the instructions of one step, of a whole program or of one queue, in issue order and with their loops,
// with everything that can be known of them in advance. Walk is the only place where the runtime unrolls loops: the
// interpreter walks a program's stream for a device that wants every instruction issued; a device that runs its queues
// itself walks their streams.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/Layout.h"

#include <memory>
#include <vector>

namespace pipec::runtime {

struct Stream {
  struct Item {
    const plan::Operation *operation;
    const Slot *in;  // of the first trip's microbatch, in a table by microbatch; null: none. Send: the receiver's slot,
                     // empty if that memory cannot be reached from here
    const Slot *out; // as `in`; transfer: its slot. A reshard takes from `in` and brings to `out`
    QueueId queue;
    uint32_t firstWait;
    uint32_t waits;
    int32_t microbatch;
    int32_t microbatchStride;
    bool pauses = true;       // whether the next instruction waits, or another waits for this one
    bool heads = false;       // the header of an overlapped pair; both passes follow it in the stream
    bool awaited = true;      // in a program's stream: in some trip a wait, of this step or the next, names its count
    plan::Window window = {}; // window for pieces while it waits

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
  int64_t piece = 0;                   // compute queue: atoms of a piece of the rank's job
  std::vector<plan::Time> windows;     // compute queue: lengths of the step's windows, the longest first
  // A program's stream only:
  int64_t microbatches = 0;        // of a step
  std::vector<int32_t> recomputed; // the stages whose forwards run again
};

/// A position in a stream, which must outlive it.
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
  /// Moves on within a segment, which costs less.
  void nextHere() {
    const bool wraps = ++item == end;
    item = wraps ? begin : item;
    round += wraps;
  }
  /// The number of instructions of the segment from this one on.
  int64_t left() const { return (trips - round) * (end - begin) - (item - begin); }

private:
  /// The first instruction of a segment. Returned by value, so that the position stays in registers.
  static Walk at(const Stream &stream, size_t segment);

  const Stream *stream = nullptr;
  const Stream::Item *item = nullptr, *begin = nullptr, *end = nullptr; // of the segment
  int64_t round = 0, trips = 0;
  size_t segment = 0;
};

/// One step of a program as a device gets it.
struct Round {
  std::shared_ptr<const void> owner; // keeps the streams and everything that they refer to
  const Stream *whole = nullptr;
  const std::vector<Stream> *queues = nullptr; // the same instructions, by queue of the device
  int64_t step = 0;
  int64_t epoch = 0;
  std::vector<int64_t> starts;            // by queue: its count when all steps before this one are done
  std::vector<int64_t> previous;          // by queue: the same for the step before
  bool fenced = true;                     // the step before ran another program, or none: its counts mean nothing now
  const plan::Variant *variant = nullptr; // the variant of the program, with shards; else null
  int64_t evaluation = 0;                 // Label::evaluation

  /// The count, since the run began, that a wait's queue must reach; 0 or less: the wait is met.
  int64_t due(const Stream::Wait &wait, int64_t trip) const {
    int64_t count = wait.base + wait.stride * trip;
    if (count <= 0 || (wait.previousStep && fenced))
      return 0;
    return (wait.previousStep ? previous : starts)[wait.queue] + count;
  }
  /// The figures of an operation of the program on one shard; null without shards.
  const plan::OwnCost *ownOf(const plan::Operation &operation, const plan::Place &place) const {
    if (!variant)
      return nullptr;
    const plan::Program &program = variant->programs[size_t(place.rank)];
    return &variant->own[placeIn(place)].operations[size_t(&operation - program.operations.data())];
  }
};

/// A step of one instruction without waits. Its `whole` is the stream of the queue that the instruction is issued on.
std::shared_ptr<const Round> single(const Label &label, Slot in, Slot out);

} // namespace pipec::runtime
