// A group's choice of units as a program: each time between two sums is a maximum over the shards, and so is what a
// pass without sums, an optimizer, an exchange and memory take.
#pragma once

#include "compiler/portions/Program.h"

namespace pipec::portions {

struct SplitAt {
  size_t stage = 0, run = 0, split = 0;
};

/// The splits of a group in the order of a program's.
std::vector<SplitAt> splitsOf(const Group &group);
const Split &splitAt(const Group &group, const SplitAt &at);

/// `kept` units of each split are to be given, worked where they are owned; the others are owned in proportion. Its
/// value is stepOf, less at most a unit of each split in the optimizer where some are left out. Without memory.
Program ownedProgram(const Group &group, const std::vector<int64_t> &kept);
/// All units are to be given, and owned equally. Its value is stepOf where a unit of each stage moves, without the
/// latencies of the exchanges (`latenciesOf`). Without memory.
Program movedProgram(const Group &group);
/// Of each stage's exchanges; one whose stage moves nothing has none.
Time latenciesOf(const Group &group);

/// What the group's processes need as a maximum; `limit`: the most that it may be, or -1.
Maximum memoryOf(const Group &group, const Program &program, Wide limit);

} // namespace pipec::portions
