// List scheduling under the memory limit. An idle rank takes the pass that the policy likes best among those that can
// run, and looks ahead at results that are already under way. The words always fit the capacities and never deadlock,
// in any placement.
#pragma once

#include "compiler/schedule/model/Capacity.h"

#include <optional>
#include <vector>

namespace pipec::schedule {

/// The preferences of an idle rank.
struct Policy {
  enum class First : uint8_t { Backward, Forward, Alternate };
  First first = First::Backward;
  /// Among the forwards (or the backwards) of several stages of the rank. True: the highest stage first. False: the
  /// oldest microbatch first.
  bool deepest = true;
  /// An F gives way to a backward that is under way to the rank, unless the F would end at most `patience` hundredths
  /// of its own length after that backward arrives.
  int32_t patience = 100;
  /// The same for a W, which gives way to forwards too. 100: a W never gives way. 0: a W runs only if it ends before
  /// the next known arrival.
  int32_t weightPatience = 100;
  /// Most microbatches in flight on rank r (F less B, over all stages of the rank), in hundredths: base + slope (p - 1
  /// - r). Both 0: only memory limits this number.
  int32_t base = 0, slope = 0;
  /// For each stage, the most microbatches that hold memory there (F less W, or F less BW); empty: no limit.
  std::vector<int32_t> mostOfStage = {};
  /// If more W than this number are pending, a W runs before the next F.
  int32_t mostWeights = 1 << 30;
};

/// The words of a policy; none if the capacities do not hold one microbatch. O(letters · (log ranks + stages per
/// rank)). Needs check(problem) to have passed.
std::optional<Words> listSchedule(const Problem &problem, const Capacities &capacities, const Policy &policy);

} // namespace pipec::schedule
