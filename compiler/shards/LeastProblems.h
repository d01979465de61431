// LeastProblems of a spec: lower bounds of every plan, as problems for proofs.
#pragma once

#include "compiler/schedule/model/LeastProblem.h"
#include "compiler/spec/Spec.h"
#include "runtime/plan/Plan.h"

#include <vector>

namespace pipec {

/// Problems that bound every plan of the spec on one of these placements, with any order and any portions. The import
/// must have filled the problems. `rows`: the portions of a plan on the first placement; empty: the spec's balance
/// gives the portions. Under the balances resize and semi, which leave units out by a rule, the bound holds only for
/// plans with these portions.
///
/// Without shards the problems themselves are valid for proofs: a pass of a plan takes what its problem says, and
/// queues and buffers only add time. With shards, a problem's time of a pass runs from the arrival of all shards to the
/// end of the last. Shards of a plan may begin and end at different times, so pipec::leastOf() gives shorter times that
/// are valid.
schedule::LeastWays leastWays(const spec::Spec &spec, const std::vector<schedule::Problem> &placements,
                              const std::vector<plan::Portion> &rows = {});

} // namespace pipec
