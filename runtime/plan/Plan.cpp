// Names of the plan's enumerations, and the length of a program. The names are what traces, reports and messages say
// (design, section 6).
#include "runtime/plan/Plan.h"

#include <iterator>

namespace pipec::plan {

const char *name(Bound bound) {
  static constexpr const char *kNames[] = {"none",         "critical path", "work",        "warm-up",
                                           "memory chain", "area",          "last device", "exact"};
  return size_t(bound) < std::size(kNames) ? kNames[size_t(bound)] : "unknown";
}

int64_t executed(const Program &program) {
  int64_t count = 0;
  for (const Segment &segment : program.step)
    count += int64_t(segment.count) * segment.trips;
  return count;
}

} // namespace pipec::plan
