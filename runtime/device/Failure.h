// The first error on a rank. Any thread may raise it; listeners tell the rest of the rank, which stops.
#pragma once

#include "runtime/plan/Status.h"

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

namespace pipec::runtime {

class Failure {
public:
  /// Keeps the first status only. Calls the listeners on the calling thread.
  void raise(Status status) {
    std::vector<std::function<void()>> toCall;
    {
      std::lock_guard lock(mutex);
      if (flag.load(std::memory_order_relaxed))
        return;
      first = std::move(status);
      flag.store(true, std::memory_order_release);
      toCall = listeners;
    }
    for (const auto &listener : toCall)
      listener();
  }

  bool raised() const { return flag.load(std::memory_order_acquire); }

  Status status() const {
    std::lock_guard lock(mutex);
    return first;
  }

  /// From any thread; called at once if the failure is already there. A listener must not block.
  void listen(std::function<void()> listener) {
    {
      std::lock_guard lock(mutex);
      if (!flag.load(std::memory_order_relaxed)) {
        listeners.push_back(std::move(listener));
        return;
      }
    }
    listener();
  }

private:
  mutable std::mutex mutex;
  std::atomic<bool> flag{false};
  Status first;
  std::vector<std::function<void()>> listeners;
};

} // namespace pipec::runtime
