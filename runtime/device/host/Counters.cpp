// Counting and waking. The waiter registers under the same lock under which a post counts, so no wake-up can be lost.
#include "runtime/device/host/Counters.h"

#include <algorithm>

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
  for (size_t q = 0; q < history.size(); ++q)
    counters[q].times.resize(std::max<size_t>(history[q], 1));
}

void Counters::post(QueueId queue, Time time) {
  std::lock_guard lock(mutex);
  Counter &counter = counters[queue];
  size_t size = counter.times.size();
  if (counter.count > 0)
    time = std::max(time, counter.times[size_t(counter.count - 1) % size]);
  counter.times[size_t(counter.count) % size] = time;
  ++counter.count;
  for (Waiter &waiter : waiters)
    if (waiter.bell && waiter.of == queue && waiter.count <= counter.count) {
      waiter.bell->ring();
      waiter.bell = nullptr;
    }
}

std::optional<Counters::Time> Counters::reached(QueueId of, int64_t count, size_t waiter, Bell &bell) {
  std::lock_guard lock(mutex);
  const Counter &counter = counters[of];
  if (count > counter.count) {
    waiters[waiter] = {of, count, &bell};
    return std::nullopt;
  }
  if (count <= 0)
    return Time(0);
  int64_t size = int64_t(counter.times.size());
  int64_t oldest = std::max<int64_t>(counter.count - size + 1, 1);
  return counter.times[size_t(std::max(count, oldest) - 1) % size_t(size)];
}

int64_t Counters::count(QueueId queue) const {
  std::lock_guard lock(mutex);
  return counters[queue].count;
}

} // namespace pipec::runtime
