// Completion counters of a rank's queues, and parking for threads that wait for them. A waiter parks at once and is
// woken only when its own count is reached; no thread spins. Each count has the time at which it was reached, which may
// be a little in the future (data on an emulated wire): a waiter starts no earlier.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/host/Fence.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace pipec::runtime {

/// Wakes a consumer. May be rung from any thread, even while no thread waits: then the next wait returns at once.
class Bell {
public:
  virtual ~Bell() = default;
  virtual void ring() = 0;
};

/// The bell of a thread: one thread waits, any thread rings. It uses one futex: with a condition variable a wait would
/// take two system calls, as its mutex is left contended.
class ParkingBell final : public Bell {
public:
  void ring() override;
  void wait();
  void waitUntil(std::chrono::steady_clock::time_point time);

private:
  enum : uint32_t { kSilent, kRung, kParked };
  void park(const timespec *until);

  std::atomic<uint32_t> state{kSilent};
};

class Counters {
public:
  using Time = plan::Time;

  /// One counter per queue, with the times of its last `history[q]` completions. Waiters are numbered from 0; each
  /// waits for one count at a time.
  Counters(const std::vector<size_t> &history, size_t waiters);

  struct Counter;

  /// To call before any thread runs, if threads park about as often as they post.
  void parkOften() { fences.even(); }

  /// Counts completions of `queue`, the last one at `time`; the times of the others are not needed. Only one thread
  /// posts for a queue. Completions count in queue order: the time is at least that of the one before.
  void post(QueueId queue, Time time, int64_t completions = 1) { post(counters[queue], time, completions); }
  void post(Counter &counter, Time time, int64_t completions) {
    const int64_t count = counter.count.load(std::memory_order_relaxed) + completions;
    counter.last = std::max(counter.last, time);
    counter.times[size_t(count - 1) & counter.mask].store(counter.last, std::memory_order_relaxed);
    counter.count.store(count, std::memory_order_release);
    fences.light();
    if (counter.awaited.load(std::memory_order_relaxed) <= count)
      wake(QueueId(&counter - counters.data()));
  }
  /// The counter of a queue, with which post() needs no search.
  Counter &counterOf(QueueId queue) { return counters[queue]; }

  /// When `of` reached `count`. If it has not yet, returns nothing, and `bell` rings once it has. A count older than
  /// the history gets the oldest remembered time. A waiter is one thread; its bell must outlive all posts.
  std::optional<Time> reached(QueueId of, int64_t count, size_t waiter, Bell &bell) {
    if (count <= 0)
      return Time(0);
    int64_t now = counters[of].count.load(std::memory_order_acquire);
    if (count <= now)
      return timeOf(counters[of], count, now);
    return await(of, count, waiter, bell);
  }

  // At rest only: everything issued has completed.

  /// The time of the last completion on any queue.
  Time last() const {
    Time time = 0;
    for (const Counter &counter : counters)
      time = std::max(time, counter.last);
    return time;
  }
  /// Work issued from now on starts no earlier than `time`.
  void setFloor(Time time) { earliest = time; }
  Time floor() const { return earliest; }

  int64_t count(QueueId queue) const { return counters[queue].count.load(std::memory_order_acquire); }

  struct Counter {
    alignas(64) std::atomic<int64_t> count{0};
    Time last = 0;
    std::unique_ptr<std::atomic<Time>[]> times; // of the n-th completion (from 1): times[(n - 1) & mask]
    size_t mask = 0;
    int64_t history = 0;
    alignas(64) std::atomic<int64_t> awaited{INT64_MAX}; // the lowest count that a waiter waits for
  };

private:
  struct Waiter {
    QueueId of = 0;
    int64_t count = 0;
    Bell *bell = nullptr; // null: it does not wait
  };

  static Time timeOf(const Counter &counter, int64_t count, int64_t now) {
    int64_t oldest = std::max<int64_t>(now - counter.history + 1, 1);
    return counter.times[size_t(std::max(count, oldest) - 1) & counter.mask].load(std::memory_order_relaxed);
  }
  std::optional<Time> await(QueueId of, int64_t count, size_t waiter, Bell &bell);
  void wake(QueueId queue);
  void setAwaited(QueueId of);

  std::vector<Counter> counters;
  Fences fences;
  Time earliest = 0;
  std::mutex mutex; // guards the waiters
  std::vector<Waiter> waiters;
};

} // namespace pipec::runtime
