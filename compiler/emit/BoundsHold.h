// Checks proven bounds against the plans at hand. A bound that a plan beats is an error in pipec itself; the check
// finds it before it is printed.
#pragma once

#include "compiler/emit/ScheduleReport.h"
#include "compiler/schedule/model/Problem.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <string>
#include <vector>

namespace pipec::emit {

/// A plan, and the bounds that its certificate claims for all plans of its problem.
struct Claim {
  std::string name; // "1f1b", "variant 'small'"
  const plan::Certificate *certificate = nullptr;
  const schedule::Problem *problem = nullptr; // null: the bound is only compared with its own plan
  std::vector<int32_t> cut = {};              // layers of each stage; empty: the spec has none
  bool wholeAsParts = false;                  // a whole backward counts as long as its two parts, as in split orders
  bool ofAllPlacements = false;               // the bound holds for loop and for there-and-back placement
  /// All claims are about one spec: passes take the same time, except for the portions of shards.
  bool isOneSpec = false;
};

/// Whether the bound of `one` applies to the plan of `other`: the same work, in no more memory.
bool speaksOf(const Claim &one, const Claim &other);

/// Code::Check if a plan beats a bound; the message names both.
Status checkBounds(const std::vector<Claim> &claims);
/// The same for a single bound and time.
Status checkBound(const std::string &name, const char *objective, plan::LeastTime bound, const std::string &other,
                  plan::Time taken);

/// The same for the other bounds in a report: those at a plan's own memory, and those of other balances of shards. The
/// balance `auto` may choose the portions of `even`, so its bound must hold for the plan of `even` too.
Status checkBounds(const PlanReport &report);

} // namespace pipec::emit
