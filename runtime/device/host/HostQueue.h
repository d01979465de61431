// One queue of the host device: the steps and single pieces of work that were issued on it and are not complete, and
// the position in them of the thread that runs the queue. A step is walked in place: no data is passed per instruction.
// Other threads find the head from the number of counted completions.
#pragma once

#include "runtime/device/Clock.h"
#include "runtime/device/Filler.h"
#include "runtime/device/Recorder.h"
#include "runtime/device/Stream.h"
#include "runtime/device/host/Counters.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace pipec::runtime {

class HostBody;
class Summand;

/// An executed instruction, as its step has it.
struct HostWork {
  const Stream::Item *item = nullptr;
  int64_t trip = 0;
  const Round *round = nullptr;
  HostBody *body = nullptr;   // null: the transport does the work
  Summand *summand = nullptr; // of an all-reduce; else null

  const plan::Operation &operation() const { return *item->operation; }
  int64_t microbatch() const { return item->microbatchOf(trip); }
  Slot in() const { return item->slot(item->in, trip); }
  Slot out() const { return item->slot(item->out, trip); } // for a transfer: its slot
  Label label() const {
    return {item->operation, microbatch(), round->step, round->epoch, round->whole, round->evaluation};
  }
  /// The figures of the operation on one shard; null without shards.
  const plan::OwnCost *ownOf(const plan::Place &place) const { return round->ownOf(*item->operation, place); }
};

class HostQueue {
public:
  using Time = plan::Time;

  /// All arguments must outlive this object. `id` is its number among the counters' queues and waiters.
  HostQueue(QueueId id, Counters &counters, const Clock &clock)
      : id(id), counters(counters), counter(counters.counterOf(id)), clock(clock) {}

  /// Sets the bell that rings when front() may return what it did not return before. Before anything is issued.
  void setBell(Bell &own) { bell = &own; }

  // For the issuing thread.

  /// The work issued next starts only once queue `of` has counted `count`.
  void wait(QueueId of, int64_t count) { waits.push_back({of, count}); }
  /// A step's instructions on this queue.
  void push(std::shared_ptr<const Round> round, const Stream &stream, HostBody *body, Summand *summand);
  void ring() { bell->ring(); }

  // For the thread that runs the queue.

  /// The head, once all waits before it are met, and when they were; nullptr: not yet, or there is no head.
  const HostWork *front(Time &since) {
    if (!met && !approach())
      return nullptr;
    since = ready;
    return &head;
  }
  /// The window of the instruction that the queue has come to. Length 0: no pieces may run while it waits, as for the
  /// first instruction of a run, the first one of another program, and all instructions of a solo step
  /// (Filler::isSolo).
  struct Fillable {
    plan::Window window;
    const Stream *stream = nullptr; // has the atoms of a piece, and all windows
    int64_t step = 0;
  };
  Fillable fillable() const {
    if (left == 0 || (head.round->fenced && left == entry->stream->executed) || Filler::isSolo(head.round->step))
      return {};
    return {walk.at().window, entry->stream, head.round->step};
  }
  /// Whether the head is the first of its step.
  bool isFirst() const { return left == entry->stream->executed; }
  /// Whether the step is done after `ran` more instructions, the head included.
  bool isEnd(int64_t ran) const { return left == ran; }
  /// Runs the head, and then the following instructions as long as `run` returns true, at most `most` in all, and no
  /// further than where the stream pauses. Returns how many ran. None counts as complete yet.
  template <typename Run> int64_t runOn(int64_t most, Run run) {
    Walk at = walk; // in registers
    most = std::min(most, at.left());
    int64_t more = most - 1;
    for (; run(std::as_const(head)) && more != 0 && !at.at().pauses; --more) {
      at.nextHere();
      stand(at);
    }
    walk = at;
    return most - more;
  }
  /// To call when `ran` instructions have completed, up to the one at which the queue is, the last of them at `end`.
  void pop(int64_t ran, Time end) {
    counters.post(counter, end, ran);
    met = false;
    passed = 0;
    ready = 0;
    left -= ran;
    if (left == 0)
      leave();
    else
      walk.next();
  }
  /// Records what has completed.
  Recorder recorder;

  // From any thread.

  struct Known {
    const plan::Operation *operation;
    int64_t microbatch;
    std::optional<QueueId> waitsFor; // a queue that has not reached the count it waits for
  };
  /// The first instruction that is not complete.
  std::optional<Known> look() const;
  /// When the unmet wait of the head began; -1: all its waits are met.
  Time waitingSince() const { return since.load(std::memory_order_relaxed); }

private:
  struct Wait {
    QueueId of;
    int64_t count;
  };
  /// What was issued in one call.
  struct Entry {
    std::vector<Wait> waits; // waits before it
    std::shared_ptr<const Round> round;
    const Stream *stream; // the stream of this queue
    HostBody *body;
    Summand *summand;
  };
  bool approach() {
    if (left == 0 && !enter())
      return false;
    const Stream::Item &item = walk.at();
    for (; passed != item.waits; ++passed) {
      const Stream::Wait &wait = entry->stream->waits[item.firstWait + passed];
      if (!pass(wait.queue, head.round->due(wait, walk.trip())))
        return false;
    }
    stand(walk);
    return met = true;
  }
  void stand(const Walk &at) {
    head.item = &at.at();
    head.trip = at.trip();
  }
  bool pass(QueueId of, int64_t count) {
    std::optional<Time> reached = counters.reached(of, count, id, *bell);
    if (!reached || waited)
      setWaiting(!reached);
    ready = std::max(ready, reached.value_or(0));
    return reached.has_value();
  }
  void setWaiting(bool now);
  bool enter();
  void leave();

  const QueueId id;
  Counters &counters;
  Counters::Counter &counter;
  const Clock &clock;
  Bell *bell = nullptr;

  mutable std::mutex mutex; // guards the next two
  std::deque<Entry> entries;
  int64_t gone = 0; // instructions of the entries that were removed

  std::vector<Wait> waits;        // used by the issuing thread
  std::atomic<int64_t> pushed{0}; // number of entries so far

  // Used by the thread that runs the queue:
  HostWork head; // the instruction at which the walk is
  Walk walk;
  int64_t left = 0;       // instructions of the entry that are left, the head included
  Entry *entry = nullptr; // the first entry, once it was entered
  Time ready = 0;         // latest time of the waits passed since the last work
  uint32_t passed = 0;    // waits of the head that are met
  bool met = false;
  bool waited = false;     // as waitingSince() says
  size_t passedBefore = 0; // waits before the entry that are met
  int64_t popped = 0;
  std::atomic<Time> since{-1};
};

} // namespace pipec::runtime
