// What is live on a rank at each instruction of its compute queue, in any timing (design, section 5: priority): a W on
// the weights queue has released its context where the compute queue's waits say that it has run, and no sooner.
#pragma once

#include "runtime/plan/Plan.h"

#include <deque>

namespace pipec::plan {

/// Counts a rank's live bytes, told of its instructions in issue order. Sums of many sizes may pass 63 bits.
class LiveMemory {
public:
  /// The compute queue now knows that this many instructions of the weights queue have completed.
  void know(int64_t completed) {
    for (; released < completed && !deferred.empty(); ++released) {
      live -= deferred.front();
      deferred.pop_front();
    }
  }
  /// An operation starts. True if more is live now than ever before.
  bool hold(const Operation &operation) {
    live += takenBy(operation);
    if (live <= most)
      return false;
    most = live;
    return true;
  }
  /// It has been issued.
  void release(const Operation &operation, bool onWeightsQueue) {
    if (onWeightsQueue)
      deferred.push_back(freedBy(operation));
    else
      live -= freedBy(operation);
  }

  __int128 peak() const { return most; }
  /// W of which the compute queue does not know that they have completed.
  size_t pending() const { return deferred.size(); }

private:
  __int128 live = 0, most = 0;
  std::deque<__int128> deferred;
  int64_t released = 0;
};

} // namespace pipec::plan
