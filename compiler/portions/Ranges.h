// Units of a split as ranges: who has which.
#pragma once

#include "compiler/portions/Model.h"

namespace pipec::portions {

int64_t unitsOf(const Ranges &ranges);
/// Of two shards' units, or of what one owns and works: those in both, in either, in the first alone.
int64_t unitsOfBoth(const Ranges &one, const Ranges &other);
inline int64_t unitsOfEither(const Ranges &one, const Ranges &other) {
  return unitsOf(one) + unitsOf(other) - unitsOfBoth(one, other);
}
inline int64_t unitsOfFirst(const Ranges &one, const Ranges &other) { return unitsOf(one) - unitsOfBoth(one, other); }

/// As many units a shard as nearly equal counts allow: the first units % shards of them have one more.
std::vector<int64_t> equalCounts(int64_t units, int32_t shards);
/// So many units a shard, in the order of shards.
std::vector<Ranges> contiguous(const std::vector<int64_t> &counts);
/// Who works what where owner i has owned[i] units, contiguous in the order of shards, and shard i works worked[i] of
/// as many in all. Whoever works fewer than it owns gives its last units away; these go, ascending, to those that work
/// more, in the order of shards.
std::vector<Ranges> given(const std::vector<int64_t> &owned, const std::vector<int64_t> &worked);
/// `units` as whole numbers in proportion to `weights`, of which one at least is above 0: the largest remainders get
/// one more, of equal ones the first. None is below its weight where the weights' sum is not above `units`.
std::vector<int64_t> inProportion(int64_t units, const std::vector<int64_t> &weights);

} // namespace pipec::portions
