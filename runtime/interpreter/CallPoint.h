// A call point is where in a step the interpreter asks for the permit of the next step: late, so that decisions use
// everything known by then, but early enough that the permit is there before the step ends.
#pragma once

#include "runtime/adapt/StepReport.h"

#include <vector>

namespace pipec::runtime {

struct CallPoint {
  uint32_t queue = 0;
  int64_t count = 0;   // number of instructions of the queue that have ended in the step
  plan::Time rest = 0; // remaining duration of the step from then on
  /// The step is shorter than the horizon: the interpreter asks at its beginning.
  bool atOnce() const { return count == 0; }
};

/// By place (rank * shards + shard): the last instruction of a device queue that ends a horizon before the rank's step
/// does, if the step runs alone and links are as in the plan. The plan must be proved.
std::vector<CallPoint> callPoints(const plan::Variant &variant, plan::Time horizon);
/// The same with the horizon for the variant's span.
inline std::vector<CallPoint> callPoints(const plan::Variant &variant) {
  return callPoints(variant, adapt::horizonOf(variant.certificate.span));
}

} // namespace pipec::runtime
