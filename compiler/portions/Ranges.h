// Units of a split as ranges.
#pragma once

#include "compiler/portions/Model.h"

namespace pipec::portions {

int64_t unitsOf(const Ranges &ranges);
/// How many units are in both, in either, or in the first alone: of two shards, or of what one shard owns and works.
int64_t unitsOfBoth(const Ranges &one, const Ranges &other);
inline int64_t unitsOfEither(const Ranges &one, const Ranges &other) {
  return unitsOf(one) + unitsOf(other) - unitsOfBoth(one, other);
}
inline int64_t unitsOfFirst(const Ranges &one, const Ranges &other) { return unitsOf(one) - unitsOfBoth(one, other); }

/// Nearly equal counts by shard: the first units % shards shards have one unit more.
std::vector<int64_t> equalCounts(int64_t units, int32_t shards);
/// Ranges with counts[i] units for shard i, contiguous in the order of shards.
std::vector<Ranges> contiguous(const std::vector<int64_t> &counts);
/// The units that each shard works, if shard i owns owned[i] units, contiguous in the order of shards, and works
/// worked[i]; both have the same sum. A shard that works fewer units than it owns gives away its last units. These
/// units go, ascending, to the shards that work more than they own, in the order of shards.
std::vector<Ranges> given(const std::vector<int64_t> &owned, const std::vector<int64_t> &worked);
/// `units` as whole numbers in proportion to `weights`; at least one weight must be above 0. The largest remainders get
/// one more, of equal remainders the first. If the weights sum to at most `units`, no number is below its weight.
std::vector<int64_t> inProportion(int64_t units, const std::vector<int64_t> &weights);

} // namespace pipec::portions
