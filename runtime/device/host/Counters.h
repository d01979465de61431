// Completion counters of a rank's queues and the parking of those who wait for them. A waiter parks at once and is
// woken only when its own count is reached; nobody spins. With each count stands the time at which it was reached,
// which may lie a little in the future (data on an emulated wire): whoever waited for it starts no earlier.
#pragma once

#include "runtime/device/Device.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

namespace pipec::runtime {

/// Wakes a consumer. May be rung from any thread, also while nobody listens: then the next wait returns at once.
class Bell {
public:
  virtual ~Bell() = default;
  virtual void ring() = 0;
};

/// The bell of a thread: one thread waits, any ring.
class ParkingBell final : public Bell {
public:
  void ring() override;
  void wait();
  void waitUntil(std::chrono::steady_clock::time_point time);

private:
  std::mutex mutex;
  std::condition_variable condition;
  bool rung = false;
};

class Counters {
public:
  using Time = plan::Time;

  /// One counter a queue, remembering the times of its last `history[q]` completions. Waiters are numbered from 0; each
  /// waits for one count at a time.
  Counters(const std::vector<size_t> &history, size_t waiters);

  /// Counts one completion of `queue`. Completions count in queue order: the time is at least that of the one before.
  void post(QueueId queue, Time time);

  /// When `of` reached `count`. If it has not yet: nothing, and `bell` rings once it has. A count older than the
  /// history is said to be as old as the oldest remembered.
  std::optional<Time> reached(QueueId of, int64_t count, size_t waiter, Bell &bell);

  int64_t count(QueueId queue) const;

private:
  struct Counter {
    int64_t count = 0;
    std::vector<Time> times; // of the n-th completion (from 1): times[(n - 1) % size]
  };
  struct Waiter {
    QueueId of = 0;
    int64_t count = 0;
    Bell *bell = nullptr; // none: does not wait
  };

  mutable std::mutex mutex;
  std::vector<Counter> counters;
  std::vector<Waiter> waiters;
};

} // namespace pipec::runtime
