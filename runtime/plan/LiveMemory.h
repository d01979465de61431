// The live bytes of a rank at each instruction of its compute queue, the most in any timing (design, section 5:
// priority). The context of a W on the weights queue counts as freed only once the compute queue has waited for that W.
#pragma once

#include "runtime/plan/Plan.h"

#include <deque>

namespace pipec::plan {

/// Counts a rank's live bytes from its instructions in issue order. Sums of many sizes may pass 63 bits.
class LiveMemory {
public:
  /// To call when the compute queue has waited for this many instructions of the weights queue.
  void know(int64_t completed) {
    for (; released < completed && !deferred.empty(); ++released) {
      live -= deferred.front();
      deferred.pop_front();
    }
  }
  /// To call when an operation starts. True if more is live now than ever before.
  bool hold(const Operation &operation) {
    live += takenBy(operation);
    if (live <= most)
      return false;
    most = live;
    return true;
  }
  /// To call when the operation has been issued.
  void release(const Operation &operation, bool onWeightsQueue) {
    if (onWeightsQueue)
      deferred.push_back(freedBy(operation));
    else
      live -= freedBy(operation);
  }

  __int128 peak() const { return most; }
  /// The number of W that the compute queue has not waited for yet.
  size_t pending() const { return deferred.size(); }

private:
  __int128 live = 0, most = 0;
  std::deque<__int128> deferred;
  int64_t released = 0;
};

} // namespace pipec::plan
