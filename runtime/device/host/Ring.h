// The entries of one queue, from the thread that issues to the one that runs them: a ring that neither locks. Other
// threads may ask what stands at its head, for messages.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/device/host/Fence.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
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

class Ring {
public:
  struct Entry {
    bool isWait = false;
    QueueId of = 0; // a wait's
    int64_t count = 0;
    HostWork work;
  };

  // The issuing thread. When the ring is full it waits for room, or until `stopped`, after which nothing is kept. True:
  // the runner has found nothing here since it was last rung, and is to be rung.

  bool pushWait(QueueId of, int64_t count, const std::atomic<bool> &stopped) {
    Entry *entry = room(stopped);
    if (!entry)
      return false;
    store(entry->isWait, true);
    store(entry->of, of);
    entry->count = count;
    return publish();
  }
  bool pushWork(const HostWork &work, const std::atomic<bool> &stopped) {
    Entry *entry = room(stopped);
    if (!entry)
      return false;
    store(entry->isWait, false);
    store(entry->work.label.operation, work.label.operation);
    store(entry->work.label.microbatch, work.label.microbatch);
    entry->work.label.step = work.label.step;
    entry->work.label.epoch = work.label.epoch;
    entry->work.in = work.in;
    entry->work.out = work.out;
    entry->work.body = work.body;
    entry->work.summand = work.summand;
    return publish();
  }

  // The running thread.

  /// The head; nullptr: there is none, and the next push says so.
  Entry *front() {
    uint64_t at = head.load(std::memory_order_relaxed);
    if (at == knownTail && (knownTail = tail.load(std::memory_order_acquire)) == at && nothingCame(at))
      return nullptr;
    return &entries[at & kMask];
  }
  void pop() {
    head.store(head.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    lightFence();
    if (full.load(std::memory_order_relaxed))
      makeRoom();
  }

  // Any thread.

  struct Known {
    const plan::Operation *operation;
    int64_t microbatch;
  };
  /// The first work, behind the waits at the head.
  std::optional<Known> peek() const;
  /// The queue that the head waits for, if it is a wait.
  std::optional<QueueId> waitsFor() const;
  /// `stopped` has been set.
  void wakeIssuer();

private:
  static constexpr uint64_t kCapacity = uint64_t(1) << 13, kMask = kCapacity - 1;

  // What other threads look at while it may be written again: whoever has read the new value finds the head moved.
  template <typename T> static void store(T &to, T value) {
    std::atomic_ref<T>(to).store(value, std::memory_order_release);
  }
  template <typename T> static T load(const T &from) {
    return std::atomic_ref<T>(const_cast<T &>(from)).load(std::memory_order_acquire);
  }

  Entry *room(const std::atomic<bool> &stopped) {
    uint64_t at = tail.load(std::memory_order_relaxed);
    if (at - knownHead == kCapacity && (knownHead = head.load(std::memory_order_acquire)) == at - kCapacity &&
        !awaitRoom(at, stopped))
      return nullptr;
    return &entries[at & kMask];
  }
  bool publish() {
    tail.store(tail.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    lightFence();
    return empty.load(std::memory_order_relaxed) && empty.exchange(false, std::memory_order_acq_rel);
  }
  static void *allocate() {
    void *block = std::calloc(kCapacity, sizeof(Entry));
    return block ? block : throw std::bad_alloc();
  }
  bool awaitRoom(uint64_t at, const std::atomic<bool> &stopped);
  bool nothingCame(uint64_t at);
  void makeRoom();

  // Zeros, and untouched until used: what has no instructions takes no memory.
  struct Free {
    void operator()(Entry *block) const { std::free(block); }
  };
  std::unique_ptr<Entry[], Free> entries{static_cast<Entry *>(allocate())};
  std::mutex mutex; // over waiting for room
  std::condition_variable hasRoom;
  // Each pair is written by one side: what is published, and what it last knew of the other.
  alignas(64) std::atomic<uint64_t> tail{0};
  uint64_t knownHead = 0;
  alignas(64) std::atomic<uint64_t> head{0};
  uint64_t knownTail = 0;
  alignas(64) std::atomic<bool> empty{false}; // the runner has found nothing
  std::atomic<bool> full{false};              // the issuer waits for room
};

} // namespace pipec::runtime
