// Counting and waking.
#include "runtime/device/host/Counters.h"

#include <bit>

namespace pipec::runtime {

void ParkingBell::ring() {
  {
    std::lock_guard lock(mutex);
    rung = true;
  }
  condition.notify_one();
}

void ParkingBell::wait() {
  std::unique_lock lock(mutex);
  condition.wait(lock, [&] { return rung; });
  rung = false;
}

void ParkingBell::waitUntil(std::chrono::steady_clock::time_point time) {
  std::unique_lock lock(mutex);
  condition.wait_until(lock, time, [&] { return rung; });
  rung = false;
}

Counters::Counters(const std::vector<size_t> &history, size_t waiters) : counters(history.size()), waiters(waiters) {
  for (size_t q = 0; q < history.size(); ++q) {
    Counter &counter = counters[q];
    counter.history = int64_t(std::max<size_t>(history[q], 1));
    size_t size = std::bit_ceil(size_t(counter.history) + 1); // one more: who reads the oldest is not overtaken at once
    counter.times = std::make_unique<std::atomic<Time>[]>(size);
    counter.mask = size - 1;
  }
}

void Counters::remove(Waiter &waiter) {
  counters[waiter.of].waiting.fetch_sub(1, std::memory_order_relaxed);
  waiter.bell = nullptr;
}

/// The waiter raises its flag and looks once more; post() counts and then looks for flags.
std::optional<Counters::Time> Counters::await(QueueId of, int64_t count, size_t number, Bell &bell) {
  Waiter &waiter = waiters[number];
  {
    std::lock_guard lock(mutex);
    if (waiter.bell == &bell && waiter.of == of && waiter.count == count)
      return std::nullopt; // it has looked since it was hung there, and will be rung
    if (waiter.bell)
      remove(waiter);
    waiter = {of, count, &bell};
    counters[of].waiting.fetch_add(1, std::memory_order_relaxed);
  }
  heavyFence();
  int64_t now = counters[of].count.load(std::memory_order_acquire);
  if (count > now)
    return std::nullopt;
  std::lock_guard lock(mutex);
  if (waiter.bell)
    remove(waiter);
  return timeOf(counters[of], count, now);
}

void Counters::wake(QueueId queue) {
  std::lock_guard lock(mutex);
  int64_t now = counters[queue].count.load(std::memory_order_relaxed);
  for (Waiter &waiter : waiters)
    if (waiter.bell && waiter.of == queue && waiter.count <= now) {
      waiter.bell->ring();
      remove(waiter);
    }
}

} // namespace pipec::runtime
