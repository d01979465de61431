// What a device does while the heads of all its queues wait.
#pragma once

#include "runtime/plan/Plan.h"

#include <vector>

namespace pipec::runtime {

/// Pieces of a background job, as a device's thread asks for them.
class Filler {
public:
  virtual ~Filler() = default;

  /// Whether a window may be filled. `windows`: those of a step, the longest first.
  virtual bool opens(plan::Time window, const std::vector<plan::Time> &windows) const = 0;
  /// How long the next piece takes at most, its overhead included, where the program's are of so many atoms; 0: there
  /// is none.
  virtual plan::Time next(int64_t atoms) const = 0;
  /// Runs it on the calling thread, from `begin` on in the run's clock (Pace::Carry: when it was due). Returns when it
  /// ended in that clock.
  virtual plan::Time run(int64_t atoms, plan::Time begin) = 0;
  /// A step has ended on the compute queue.
  virtual void stepped(int64_t step, plan::Time end) = 0;

  /// One step in so many is run without pieces, to know what it takes then.
  static constexpr int64_t kSoloEvery = 32;
  static bool isSolo(int64_t step) { return step % kSoloEvery == kSoloEvery - 1; }
};

} // namespace pipec::runtime
