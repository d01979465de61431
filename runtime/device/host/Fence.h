// A pair of fences for flags that are checked often and raised seldom. A thread that stores and then loads on the hot
// path takes the light fence, which costs nothing. A thread that does so before it parks takes the heavy fence, which
// makes every running thread of the process pass a full fence (membarrier(2)). If two threads each store, fence, and
// load what the other stored, one with a light and one with a heavy fence, at least one sees the other's store. If
// threads park about as often as they raise flags, both are full fences: some nanoseconds each, in place of
// microseconds for the heavy one.
#pragma once

#include <atomic>

namespace pipec::runtime {

namespace fence {
extern const bool kExpedited; // whether the kernel has the heavy fence; without it both are full fences
void full();
} // namespace fence

class Fences {
public:
  /// From now on both are full fences. To call before any thread uses either.
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
