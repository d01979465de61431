// The slow sides: empty, full, looked at from outside.
#include "runtime/device/host/Ring.h"

namespace pipec::runtime {

/// Raises the flag for the next push and looks once more.
bool Ring::nothingCame(uint64_t at) {
  if (empty.load(std::memory_order_relaxed))
    return true; // looked already, and no push has taken the flag since
  empty.store(true, std::memory_order_relaxed);
  heavyFence();
  knownTail = tail.load(std::memory_order_acquire);
  return knownTail == at;
}

bool Ring::awaitRoom(uint64_t at, const std::atomic<bool> &stopped) {
  std::unique_lock lock(mutex);
  while (true) {
    full.store(true, std::memory_order_relaxed);
    heavyFence();
    knownHead = head.load(std::memory_order_acquire);
    if (stopped || at - knownHead <= kCapacity / 2)
      break;
    hasRoom.wait(lock);
  }
  full.store(false, std::memory_order_relaxed);
  return !stopped;
}

/// Wakes the issuer once there is room for many, not for each.
void Ring::makeRoom() {
  if (tail.load(std::memory_order_acquire) - head.load(std::memory_order_relaxed) > kCapacity / 2)
    return;
  wakeIssuer();
}

void Ring::wakeIssuer() {
  std::lock_guard lock(mutex);
  full.store(false, std::memory_order_relaxed); // once
  hasRoom.notify_all();
}

std::optional<Ring::Known> Ring::peek() const {
  while (true) {
    uint64_t begin = head.load(std::memory_order_acquire), end = tail.load(std::memory_order_acquire);
    std::optional<Known> found;
    for (uint64_t at = begin; at != end && !found; ++at)
      if (const Entry &entry = entries[at & kMask]; !load(entry.isWait))
        found = {load(entry.work.label.operation), load(entry.work.label.microbatch)};
    if (head.load(std::memory_order_relaxed) == begin)
      return found;
  }
}

std::optional<QueueId> Ring::waitsFor() const {
  while (true) {
    uint64_t begin = head.load(std::memory_order_acquire);
    std::optional<QueueId> found;
    if (const Entry &entry = entries[begin & kMask];
        begin != tail.load(std::memory_order_acquire) && load(entry.isWait))
      found = load(entry.of);
    if (head.load(std::memory_order_relaxed) == begin)
      return found;
  }
}

} // namespace pipec::runtime
