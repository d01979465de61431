// What a device does while the heads of all its queues wait.
#pragma once

#include "runtime/plan/Plan.h"

namespace pipec::runtime {

/// Pieces of a background job, as a device's thread asks for them.
class Filler {
public:
  virtual ~Filler() = default;

  /// How long the next piece takes at most, its overhead included, where the program's are of so many atoms; 0: there
  /// is none.
  virtual plan::Time next(int64_t atoms) const = 0;
  /// Runs it on the calling thread, from `begin` on in the run's clock (Pace::Carry: when it was due). Returns when it
  /// ended in that clock.
  virtual plan::Time run(int64_t atoms, plan::Time begin) = 0;
};

} // namespace pipec::runtime
