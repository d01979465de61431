// What a shard holds of the units that are given to it. Own sizes of a layer are held whole. Activations, contexts and
// recompute inputs of a split go by what is kept, weights and gradients by what is owned or worked, optimizer state by
// what is owned; each term is rounded up.
#pragma once

#include "compiler/portions/Model.h"

namespace pipec::portions {

/// Of one stage on one shard.
struct Held {
  Bytes activation = 0, weightContext = 0, backwardContext = 0, recomputeInput = 0; // of a microbatch
  Bytes staticBytes = 0; // weights, gradients, optimizer state
  bool operator==(const Held &) const = default;
};

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
