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
#include <utility>

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
  /// The head has completed, at `end`.
  void pop(Time end) {
    runOn(1, [end](const HostWork &) { return Ran{end, true, true}; }, [](int64_t, bool) { return int64_t(0); });
  }
  /// Whether the head is the first of what was issued at once.
  bool isFirst() const { return left == entry->size; }
  struct Ran {
    Time end;       // when it completed
    bool completed; // if not, nothing more will
    bool rest;      // do not just go on
  };
  /// Runs the head, and what follows it in its step as long as that waits for nothing. After so many, after one that
  /// asks for it and after the last of what was issued at once, before that one counts, `rest` hears how many ran since
  /// it was last asked and whether that was the last, and says how many may run before it is asked again; 0: leave it
  /// at that. Returns how many ran since. Where an instruction costs no more than its bookkeeping, this is what counts:
  /// where the queue stands is kept in registers and written back at the end.
  template <typename Run, typename Rest> int64_t runOn(int64_t most, Run run, Rest rest) {
    Walk at = walk;
    int64_t still = left;                 // as of the last rest
    int64_t some = std::min(most, still); // until the next one
    int64_t more = some;
    while (true) {
      const Ran ran = run(std::as_const(head));
      if (!ran.completed)
        return 0;
      if (--more == 0 || ran.rest) {
        still -= some - more;
        some = more = std::min(rest(some - more, still == 0), still);
        if (more == 0) {
          counters.post(counter, ran.end);
          if (still != 0)
            at.next();
          break;
        }
      }
      counters.post(counter, ran.end);
      at.next();
      if (at.at().waits != 0)
        break;
      take(at);
    }
    met = false;
    passed = 0;
    ready = 0;
    left = still - (some - more);
    if (left == 0)
      leave();
    else
      walk = at;
    return some - more;
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
    take(walk);
    return met = true;
  }
  /// The head is what a walk of the entry's stream stands at.
  void take(const Walk &at) {
    const Stream::Item &item = at.at();
    const int64_t microbatch = at.microbatch();
    head.label.operation = item.operation;
    head.label.microbatch = microbatch;
    head.in = item.in ? item.in[microbatch] : Slot{};
    head.out = item.out ? item.out[microbatch] : Slot{};
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
