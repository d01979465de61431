// Counting and waking.
#include "runtime/device/host/Counters.h"

#include <bit>
#include <cerrno>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace pipec::runtime {

void ParkingBell::ring() {
  if (state.exchange(kRung) == kParked)
    syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void ParkingBell::wait() { park(nullptr); }

void ParkingBell::waitUntil(std::chrono::steady_clock::time_point time) {
  const std::chrono::nanoseconds since = std::max(time.time_since_epoch(), std::chrono::nanoseconds(0));
  const std::chrono::nanoseconds rest = since % std::chrono::seconds(1);
  const timespec until{time_t(std::chrono::duration_cast<std::chrono::seconds>(since).count()), long(rest.count())};
  park(&until);
}

void ParkingBell::park(const timespec *until) {
  bool late = false;
  for (uint32_t found = kSilent; !late; found = kSilent) {
    if (!state.compare_exchange_strong(found, kParked) && found == kRung)
      break;
    // Until an instant of the monotonic clock, which is the steady one.
    late =
        syscall(SYS_futex, &state, FUTEX_WAIT_BITSET_PRIVATE, kParked, until, nullptr, FUTEX_BITSET_MATCH_ANY) != 0 &&
        errno == ETIMEDOUT;
  }
  state.exchange(kSilent);
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

void Counters::setAwaited(QueueId of) {
  int64_t least = INT64_MAX;
  for (const Waiter &waiter : waiters)
    if (waiter.bell && waiter.of == of)
      least = std::min(least, waiter.count);
  counters[of].awaited.store(least, std::memory_order_relaxed);
}

/// The waiter says what it waits for and looks once more; post() counts and then looks for who waits.
std::optional<Counters::Time> Counters::await(QueueId of, int64_t count, size_t number, Bell &bell) {
  Waiter &waiter = waiters[number];
  {
    std::lock_guard lock(mutex);
    if (waiter.bell == &bell && waiter.of == of && waiter.count == count)
      return std::nullopt; // it has looked since it was hung there, and will be rung
    QueueId before = waiter.bell ? waiter.of : of;
    waiter = {of, count, &bell};
    setAwaited(before);
    setAwaited(of);
  }
  fences.heavy();
  int64_t now = counters[of].count.load(std::memory_order_acquire);
  if (count > now)
    return std::nullopt;
  std::lock_guard lock(mutex);
  waiter.bell = nullptr;
  setAwaited(of);
  return timeOf(counters[of], count, now);
}

/// Rings without the lock, which those who wake take first of all.
void Counters::wake(QueueId queue) {
  std::unique_lock lock(mutex);
  int64_t now = counters[queue].count.load(std::memory_order_relaxed);
  std::vector<Bell *> due;
  for (Waiter &waiter : waiters)
    if (waiter.bell && waiter.of == queue && waiter.count <= now)
      due.push_back(std::exchange(waiter.bell, nullptr));
  setAwaited(queue);
  lock.unlock();
  for (Bell *bell : due)
    bell->ring();
}

} // namespace pipec::runtime
