// A filler is what a device runs while the heads of all its queues wait.
#pragma once

#include "runtime/plan/Plan.h"

#include <vector>

namespace pipec::runtime {

/// Pieces of a background job, for a device's thread.
class Filler {
public:
  virtual ~Filler() = default;

  /// Whether pieces may run in a window. `windows`: the windows of a step, the longest first.
  virtual bool opens(plan::Time window, const std::vector<plan::Time> &windows) const = 0;
  /// The longest that the next piece may take, with its overhead, if the program's pieces have `atoms` atoms; 0: there
  /// is no piece.
  virtual plan::Time next(int64_t atoms) const = 0;
  /// Runs a piece on the calling thread, from `begin` on in the run's clock (Pace::Carry: when the piece was due).
  /// Returns when the piece ended in that clock.
  virtual plan::Time run(int64_t atoms, plan::Time begin) = 0;
  /// A step has ended on the compute queue.
  virtual void stepped(int64_t step, plan::Time end) = 0;

  /// One step in kSoloEvery runs without pieces, to measure its duration.
  static constexpr int64_t kSoloEvery = 32;
  static bool isSolo(int64_t step) { return step % kSoloEvery == kSoloEvery - 1; }
};

} // namespace pipec::runtime
