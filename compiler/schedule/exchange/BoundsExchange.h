// What no exchange can beat, whatever its policy, bundles and order.
#pragma once

#include "compiler/schedule/exchange/Replicas.h"

namespace pipec::schedule {

/// How gradients may be summed: every exchange within this is bounded.
struct MayExchange {
  bool whole = true;     // by all-reduces
  bool decoupled = true; // by reduce-scatters and gathers
};

/// No exchange has a span below this; words and placement as the problem's. O(layers). The arguments:
/// - *wire*: every byte of a stage's gradients is summed once a step, and gathered where it was not summed whole, on a
///   port that does one thing at a time; one start for all is the least.
/// - *round*: the sums of layers 0 to l begin no sooner than the gradients of one of these layers are complete, and the
///   whole exchange of these layers is over before the forward of layer l begins in the next step. Between that forward
///   and those gradients lie the forward of layer l and of all behind it, all other forwards and backwards of the
///   stage, and of the last backward the part down to layer l. Of a last backward that is split, that part is all of B,
///   and W of one of these layers. Where a backward may be whole or split, the shorter of the two parts counts.
/// - *work*: all passes of a rank, and its updates, on its device.
Time exchangeBound(const Problem &problem, const Replicas &replicas, const MayExchange &may);

} // namespace pipec::schedule
