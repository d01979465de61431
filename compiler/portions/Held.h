// The memory that a shard needs for its units. A shard holds a layer's own sizes completely. Of a split's sizes,
// activations, contexts and recompute inputs are in proportion to the units kept, weights and gradients to the units
// owned or worked, and optimizer state to the units owned. Each term is rounded up.
#pragma once

#include "compiler/portions/Model.h"

namespace pipec::portions {

/// The sizes of one stage on one shard, in bytes: those of a microbatch, and Static, the sum of weights, gradients and
/// optimizer state.
using Held = plan::Figures;

/// By shard.
std::vector<Held> heldOf(const Group &group, const Stage &stage, const StagePortions &portions);

/// The peak memory of each shard's process, in bytes: static bytes, workspace, and the passes in flight of all stages.
/// Saturates at INT64_MAX.
std::vector<Bytes> needsOf(const Group &group, const Portions &portions);

/// bytes × part / units, rounded up.
inline Bytes shareOf(Bytes bytes, int64_t part, int64_t units) {
  return Bytes((__int128(bytes) * part + units - 1) / units);
}

} // namespace pipec::portions
