// Portions that follow from counts of units.
#pragma once

#include "compiler/portions/Model.h"

#include <functional>

namespace pipec::portions {

/// Units that are worked where they are owned, contiguous in the order of shards.
SplitPortions ownedPortions(const std::vector<int64_t> &owned, const std::vector<int64_t> &kept);
/// Units that are owned equally; `worked` of each shard are worked there, all kept.
SplitPortions movedPortions(const std::vector<int64_t> &worked);

/// The portions of each split of a group, made one by one.
using MakeSplit = std::function<SplitPortions(size_t stage, size_t run, size_t split, const Split &)>;
Portions eachSplit(const Group &group, const MakeSplit &make);

/// All units, owned, worked and kept equally.
Portions evenPortions(const Group &group);

} // namespace pipec::portions
