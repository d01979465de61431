// One queue of the host device: the steps and single pieces of work that were issued on it and are not complete, and
// where the thread that runs it stands in them. A step is walked in place: nothing is handed over for an instruction,
// and what stands at the head follows, for whoever asks, from how many have been counted.
#pragma once

#include "runtime/device/Stream.h"
#include "runtime/device/host/Clock.h"
#include "runtime/device/host/Counters.h"
#include "runtime/device/host/Recorder.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>

namespace pipec::runtime {

class HostBody;
class Summand;

struct HostWork {
  Label label;
  Slot in;
  Slot out;                   // of a transfer: its slot
  HostBody *body = nullptr;   // none: the transport's
  Summand *summand = nullptr; // of an all-reduce
};

class HostQueue {
public:
  using Time = plan::Time;

  /// All outlive it. It waits as number `id` of the counters, and counts as that.
  HostQueue(QueueId id, Counters &counters, const Clock &clock)
      : id(id), counters(counters), counter(counters.counterOf(id)), clock(clock) {}

  /// Rings when front() may give what it did not give before. Before anything is issued.
  void setBell(Bell &own) { bell = &own; }

  // The issuing thread.

  /// What is issued next starts only once queue `of` has counted `count`.
  void wait(QueueId of, int64_t count) { waits.push_back({of, count}); }
  /// A step's instructions on this queue, all run as `common` says.
  void push(std::shared_ptr<const Round> round, const Stream &stream, const HostWork &common);
  void push(const HostWork &work);
  void ring() { bell->ring(); }

  // The running thread.

  /// The head once all waits before it are met, and when that was; nullptr: not yet, or there is none.
  const HostWork *front(Time &since) {
    if (!met && !approach())
      return nullptr;
    since = ready;
    return &head;
  }
  /// Whether the head is the first or the last of what was issued at once.
  bool atEdge() const { return left == 1 || left == entry->size; }
  /// The head has completed, at `end`.
  void pop(Time end) {
    met = false;
    passed = 0;
    ready = 0;
    counters.post(counter, id, end);
    if (--left == 0)
      return leave();
    walk.next();
  }
  /// Keeps a record of what has completed.
  Recorder recorder;

  // Any thread.

  struct Known {
    const plan::Operation *operation;
    int64_t microbatch;
    std::optional<QueueId> waitsFor; // a queue that has not counted enough for it
  };
  /// The first instruction that is not complete.
  std::optional<Known> look() const;
  /// Since when the head's waits are not met; -1: they are.
  Time waitingSince() const { return since.load(std::memory_order_relaxed); }

private:
  struct Wait {
    QueueId of;
    int64_t count;
  };
  /// What was issued at once.
  struct Entry {
    std::vector<Wait> waits;            // before it
    std::shared_ptr<const Round> round; // none: `work` alone
    const Stream *stream;
    HostWork work;
    int64_t size; // instructions
  };
  bool approach() {
    if (left == 0 && !enter())
      return false;
    if (!round)
      return met = true;
    const Stream::Item &item = walk.at();
    if (item.waits != 0 && !pass(item))
      return false;
    head.label.operation = item.operation;
    head.label.microbatch = walk.microbatch();
    head.in = walk.in();
    head.out = walk.out();
    return met = true;
  }
  /// Past the waits of the head.
  bool pass(const Stream::Item &item) {
    for (; passed != item.waits; ++passed) {
      const Stream::Wait &wait = entry->stream->waits[item.firstWait + passed];
      if (!pass(wait.queue, round->due(wait, walk.trip())))
        return false;
    }
    return true;
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
  void push(Entry entry);

  const QueueId id;
  Counters &counters;
  Counters::Counter &counter;
  const Clock &clock;
  Bell *bell = nullptr;

  mutable std::mutex mutex; // over the two that follow
  std::deque<Entry> entries;
  int64_t gone = 0; // instructions of the entries before

  std::vector<Wait> waits;        // the issuing thread's
  std::atomic<int64_t> pushed{0}; // entries, ever

  // Of the running thread:
  Walk walk;
  int64_t left = 0;             // instructions of the entry, the head included
  const Round *round = nullptr; // of the entry; none: the head stands alone
  Entry *entry = nullptr;       // the first one, once it was entered
  Time ready = 0;               // of the waits passed since the last work
  uint32_t passed = 0;          // waits of the head
  bool met = false;
  bool waited = false; // as waitingSince() says
  HostWork head;
  size_t passedBefore = 0; // waits before the entry
  int64_t popped = 0;
  std::atomic<Time> since{-1};
};

} // namespace pipec::runtime
