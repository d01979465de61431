// From where in a step an interpreter asks for the permit of the next: late, so that what is decided then is decided
// with all that is known by then, but so early that the permit is there before the step has ended.
#pragma once

#include "runtime/adapt/StepReport.h"

#include <vector>

namespace pipec::runtime {

struct CallPoint {
  uint32_t queue = 0;
  int64_t count = 0;   // of the queue in the step
  plan::Time rest = 0; // from then on the step takes so long
  /// Of a step that is shorter than the horizon: its beginning.
  bool atOnce() const { return count == 0; }
};

/// Of each place (rank * shards + shard): the last instruction of a device queue that has ended a horizon before the
/// rank's step does, where the step runs alone and links are as in the plan. The plan is proved.
std::vector<CallPoint> callPoints(const plan::Variant &variant, plan::Time horizon);
/// With the horizon of such a step.
inline std::vector<CallPoint> callPoints(const plan::Variant &variant) {
  return callPoints(variant, adapt::horizonOf(variant.certificate.span));
}

} // namespace pipec::runtime
