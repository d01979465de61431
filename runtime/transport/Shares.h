// The share of each replica in a collective of layers. The share of replica i of n in a layer of e elements is the
// elements floor(e * i / n) to floor(e * (i + 1) / n), whatever other layers the collective carries, so that sums do
// not depend on how layers are bundled. A collective of a range of bytes carries the part of the shares in that range:
// an element belongs to the range in which it begins.
#pragma once

#include "runtime/device/LayerMemory.h"

#include <span>
#include <vector>

namespace pipec::runtime {

/// Numbers that are contiguous in memory.
struct Extent {
  std::byte *data = nullptr;
  int64_t count = 0;
  Number type = Number::Float32;
  plan::Bytes bytes() const { return count * sizeOf(type); }
};

/// The extents of a replica's share of what `operation` carries, in the order of layers, without empty ones. `layers`:
/// all layers of its stage.
std::vector<Extent> shareOf(const plan::Operation &operation, std::span<const LayerMemory> layers, int32_t replica,
                            int32_t replicas);

/// Cuts `extents` into parts of at most `most` bytes each. Returns at least one part, which may be empty.
std::vector<std::vector<Extent>> partsOf(const std::vector<Extent> &extents, plan::Bytes most);

} // namespace pipec::runtime
