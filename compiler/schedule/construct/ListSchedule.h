// List scheduling under the memory limit: ranks take, whenever they are idle, the pass that a policy likes best among
// those that can run, looking ahead at what is already on its way. The words it makes always fit the capacity and never
// wait for each other in a cycle, in any placement.
#pragma once

#include "compiler/schedule/model/Capacity.h"

#include <optional>
#include <vector>

namespace pipec::schedule {

/// What a rank prefers when it is idle.
struct Policy {
  enum class First : uint8_t { Backward, Forward, Alternate };
  First first = First::Backward;
  /// Among forwards (or backwards) of several stages of the rank: the highest stage first; else the oldest microbatch
  /// first.
  bool deepest = true;
  /// A pass gives way to a backward that is on its way to the rank, unless the pass would end at most this many
  /// hundredths of its own length after that backward arrives.
  int32_t patience = 100;
  /// The same for a W: at 100 a W never gives way, at 0 it runs only where it fits before what is known to come.
  int32_t weightPatience = 100;
  /// Microbatches in flight (F less B, over all its stages) that rank r may have: base + slope (p - 1 - r), in
  /// hundredths; 0 for both: no limit but memory.
  int32_t base = 0, slope = 0;
  /// For each stage, the most microbatches that hold memory there (F less W); empty: no limit.
  std::vector<int32_t> mostOfStage = {};
  /// More pending W than this many are run before the next F.
  int32_t mostWeights = 1 << 30;
};

/// The words of a policy; none where the capacity does not hold one microbatch. O(letters · (log ranks + stages a
/// rank)). Needs check(problem) to have passed.
std::optional<Words> listSchedule(const Problem &problem, const Capacities &capacities, const Policy &policy);

} // namespace pipec::schedule
