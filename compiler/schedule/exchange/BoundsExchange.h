// Lower bounds for exchanges of gradients, whatever their policy, bundles and order.
#pragma once

#include "compiler/schedule/exchange/Replicas.h"

namespace pipec::schedule {

/// How gradients may be summed. The bound holds for every exchange that this allows.
struct MayExchange {
  bool whole = true;     // all-reduces are allowed
  bool decoupled = true; // reduce-scatters with gathers are allowed
};

/// A lower bound of the span of any exchange, for the problem's words and placement. O(layers). The arguments:
/// - *wire*: every byte of a stage's gradients is summed once per step, and gathered if the sum was a reduce-scatter,
///   on a port that does one thing at a time; each stage needs at least one start latency.
/// - *round*: the sums of layers 0 to l begin no sooner than the gradients of one of these layers are complete, and the
///   whole exchange of these layers ends before the forward of layer l begins in the next step. Between that forward
///   and those gradients run the forward of layer l and all later layers, all other forwards and backwards of the
///   stage, and the last backward down to layer l. Of a split last backward this part is all of B, and W of one of
///   these layers. If a backward may be whole or split, the shorter part counts.
/// - *work*: all passes of a rank, and its updates, on its device.
Time exchangeBound(const Problem &problem, const Replicas &replicas, const MayExchange &may);

} // namespace pipec::schedule
