// What a shard holds of the units that are given to it. Own sizes of a layer are held whole. Activations, contexts and
// recompute inputs of a split go by what is kept, weights and gradients by what is owned or worked, optimizer state by
// what is owned; each term is rounded up.
#pragma once

#include "compiler/portions/Model.h"

namespace pipec::portions {

/// The sizes of one stage on one shard: of a microbatch; and Static, the sum of weights, gradients and optimizer state.
using Held = plan::Figures;

/// By shard.
std::vector<Held> heldOf(const Group &group, const Stage &stage, const StagePortions &portions);

/// What each shard's process needs at most: static bytes, workspace, and the passes in flight of all stages. Saturates
/// at INT64_MAX.
std::vector<Bytes> needsOf(const Group &group, const Portions &portions);

/// `part` of `units` of so many bytes, rounded up.
inline Bytes shareOf(Bytes bytes, int64_t part, int64_t units) {
  return Bytes((__int128(bytes) * part + units - 1) / units);
}

} // namespace pipec::portions
