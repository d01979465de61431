// What each replica has of a collective of layers. The share of replica i of n is of each layer the elements floor(e *
// i / n) to floor(e * (i + 1) / n), whatever other layers the collective carries, so that sums do not depend on how
// layers are bundled. A collective of a range of bytes carries of the shares what lies in it: an element is in the
// range in which it begins.
#pragma once

#include "runtime/device/LayerMemory.h"

#include <span>
#include <vector>

namespace pipec::runtime {

/// Numbers that lie behind each other.
struct Extent {
  std::byte *data = nullptr;
  int64_t count = 0;
  Number type = Number::Float32;
  plan::Bytes bytes() const { return count * sizeOf(type); }
};

/// The extents of a replica's share of what `operation` carries, in the order of layers; those without elements are
/// left out. `layers`: of its stage, all.
std::vector<Extent> shareOf(const plan::Operation &operation, std::span<const LayerMemory> layers, int32_t replica,
                            int32_t replicas);

/// `extents` cut into parts of at most `most` bytes each; at least one, which may be empty.
std::vector<std::vector<Extent>> partsOf(const std::vector<Extent> &extents, plan::Bytes most);

} // namespace pipec::runtime
