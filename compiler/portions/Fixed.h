// Portions that follow from counts of units.
#pragma once

#include "compiler/portions/Model.h"

#include <functional>

namespace pipec::portions {

/// The portions in which units are worked where they are owned, contiguous in the order of shards.
SplitPortions ownedPortions(const std::vector<int64_t> &owned, const std::vector<int64_t> &kept);
/// The portions in which units are owned equally, shard i works worked[i] units, and all units are kept.
SplitPortions movedPortions(const std::vector<int64_t> &worked);

/// Builds the portions of a group by calling `make` for each split.
using MakeSplit = std::function<SplitPortions(size_t stage, size_t run, size_t split, const Split &)>;
Portions eachSplit(const Group &group, const MakeSplit &make);

/// The portions in which all units are owned, worked and kept equally.
Portions evenPortions(const Group &group);

} // namespace pipec::portions
