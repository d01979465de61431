// What no plan of a spec takes less than, as problems for proofs.
#pragma once

#include "compiler/schedule/model/LeastProblem.h"
#include "compiler/spec/Spec.h"
#include "runtime/plan/Plan.h"

#include <vector>

namespace pipec {

/// Every plan of the spec on one of these placements, whichever order and portions it has. Problems are as the import
/// fills them. `rows`: the portions of a plan on the first of them; empty: those that the spec's balance gives. They
/// count where the balance leaves units out by a rule of its own: then the bound is of these portions.
///
/// Without shards the problems are themselves proofs: a pass of a plan takes what its problem says, and queues and
/// buffers only add time. With shards a problem's times are those from when all shards have come to when the last has
/// ended; a plan's shards may each begin and end at times of their own, so pipec::leastOf() says what is left.
schedule::LeastWays leastWays(const spec::Spec &spec, const std::vector<schedule::Problem> &placements,
                              const std::vector<plan::Portion> &rows = {});

} // namespace pipec
