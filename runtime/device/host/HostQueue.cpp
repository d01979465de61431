// From entry to entry; waits; the look from outside.
#include "runtime/device/host/HostQueue.h"

#include <algorithm>
#include <utility>

namespace pipec::runtime {

void HostQueue::push(std::shared_ptr<const Round> round, const Stream &stream, HostBody *body, Summand *summand) {
  std::lock_guard lock(mutex);
  entries.push_back({std::exchange(waits, {}), std::move(round), &stream, body, summand});
  pushed.store(pushed.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

/// Comes to what was issued next, past the waits before it.
bool HostQueue::enter() {
  if (!entry) {
    if (pushed.load(std::memory_order_acquire) == popped)
      return false;
    std::lock_guard lock(mutex);
    entry = &entries.front(); // stays there when others are added
    passedBefore = 0;
  }
  for (; passedBefore != entry->waits.size(); ++passedBefore)
    if (!pass(entry->waits[passedBefore].of, entry->waits[passedBefore].count))
      return false;
  head = {nullptr, 0, entry->round.get(), entry->body, entry->summand};
  walk = Walk(*entry->stream);
  left = entry->stream->executed;
  recorder.begin(entry->round, *entry->stream);
  ready = std::max(ready, counters.floor());
  return true;
}

void HostQueue::leave() {
  Entry over; // ends without the lock
  std::lock_guard lock(mutex);
  over = std::move(entries.front());
  gone += over.stream->executed;
  entries.pop_front();
  ++popped;
  entry = nullptr;
}

void HostQueue::setWaiting(bool now) {
  if (now && !waited)
    since.store(std::max<Time>(clock.now(), 0), std::memory_order_relaxed);
  else if (!now)
    since.store(-1, std::memory_order_relaxed);
  waited = now;
}

std::optional<HostQueue::Known> HostQueue::look() const {
  std::lock_guard lock(mutex);
  int64_t at = counters.count(id) - gone;
  auto unmet = [&](QueueId of, int64_t count) { return counters.count(of) < count; };
  for (const Entry &each : entries) {
    if (at >= each.stream->executed) {
      at -= each.stream->executed;
      continue;
    }
    const Walk head(*each.stream, at);
    Known known{head.at().operation, head.microbatch(), std::nullopt};
    for (const Wait &wait : each.waits)
      if (at == 0 && unmet(wait.of, wait.count))
        known.waitsFor = wait.of;
    for (uint32_t w = head.at().firstWait; w != head.at().firstWait + head.at().waits; ++w)
      if (const Stream::Wait &wait = each.stream->waits[w]; unmet(wait.queue, each.round->due(wait, head.trip())))
        known.waitsFor = wait.queue;
    return known;
  }
  return std::nullopt;
}

} // namespace pipec::runtime
