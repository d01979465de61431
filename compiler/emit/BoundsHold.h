// Whether what is said to be proven holds against the plans at hand. A bound that a plan beats is a fault of pipec's
// own; it is found here before it is printed.
#pragma once

#include "compiler/emit/ScheduleReport.h"
#include "compiler/schedule/model/Problem.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <string>
#include <vector>

namespace pipec::emit {

/// A plan, and what its certificate says of all plans of its problem.
struct Claim {
  std::string name; // "1f1b", "variant 'small'"
  const plan::Certificate *certificate = nullptr;
  const schedule::Problem *problem = nullptr; // null: the bound is held against its own plan alone
  std::vector<int32_t> cut = {};              // layers of each stage; empty: the spec has none
  bool wholeAsParts = false;                  // a whole backward takes what its two parts take, as in split orders
  bool ofAllPlacements = false;               // in a loop, and there and back
  bool isOneSpec = false; // every claim is of one spec: passes take the same time, but for the portions of shards
};

/// Whether the plan of `other` is one of those that the bound of `one` speaks of: of the same work, in no more memory.
bool speaksOf(const Claim &one, const Claim &other);

/// Code::Check, with the bound and the plan that beats it, where there is one.
Status checkBounds(const std::vector<Claim> &claims);
/// Likewise, of a bound and a time by themselves.
Status checkBound(const std::string &name, const char *objective, plan::LeastTime bound, const std::string &other,
                  plan::Time taken);

/// Likewise, of the other bounds in a report: those at a plan's own memory, and those of other balances of shards. The
/// balance `auto` may choose the portions of `even`, so its bound must hold for the plan of `even` too.
Status checkBounds(const PlanReport &report);

} // namespace pipec::emit
