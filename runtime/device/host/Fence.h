// A pair of fences for flags that are looked at often and raised seldom. A thread that stores and then loads on the hot
// path takes the light one, which costs nothing. A thread that does so before it parks takes the heavy one, which makes
// every running thread of the process pass a full fence (membarrier(2)). Of two threads that each store, fence, and
// load what the other stored, one light and one heavy, at least one sees the other's store. Where threads park about as
// often as they raise flags, both are full fences: some nanoseconds each, in place of microseconds for the heavy one.
#pragma once

#include <atomic>

namespace pipec::runtime {

namespace fence {
extern const bool kExpedited; // the kernel has the heavy one; without it both are full fences
void full();
} // namespace fence

class Fences {
public:
  /// Both are full ones from now on. Before any thread is at either.
  void even() { uneven = false; }
  void light() const {
    if (uneven)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    else
      fence::full();
  }
  void heavy() const;

private:
  bool uneven = fence::kExpedited;
};

} // namespace pipec::runtime
