// What no plan of a spec takes less than, as problems for proofs.
#pragma once

#include "compiler/schedule/model/LeastProblem.h"
#include "compiler/spec/Spec.h"
#include "runtime/plan/Plan.h"

#include <vector>

namespace pipec {

/// Bounds every plan of the spec on one of these placements, with any order and any portions. The import has filled the
/// problems. `rows`: the portions of a plan on the first placement; empty: the spec's balance gives the portions. Under
/// the balances resize and semi, which leave units out by a rule, the bound holds for plans with these portions alone.
///
/// Without shards the problems are themselves proofs: a pass of a plan takes what its problem says, and queues and
/// buffers only add time. With shards a problem's times are those from when all shards have come to when the last has
/// ended; a plan's shards may each begin and end at times of their own, so pipec::leastOf() says what is left.
schedule::LeastWays leastWays(const spec::Spec &spec, const std::vector<schedule::Problem> &placements,
                              const std::vector<plan::Portion> &rows = {});

} // namespace pipec
