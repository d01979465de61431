// The choice of units of a group as a program (Program.h). Each time between two sums is a maximum over the shards; so
// are the times of passes without sums, the optimizer and exchanges, and the memory.
#pragma once

#include "compiler/portions/Program.h"

namespace pipec::portions {

struct SplitAt {
  size_t stage = 0, run = 0, split = 0;
};

/// The splits of a group, in the order in which a program numbers them.
std::vector<SplitAt> splitsOf(const Group &group);
const Split &splitAt(const Group &group, const SplitAt &at);

/// The program that distributes `kept` units of each split, each unit worked where it is owned; units left out are
/// owned in proportion. Its value is stepOf or, if units are left out, up to a unit of each split in the optimizer
/// below stepOf. It has no memory limit.
Program ownedProgram(const Group &group, const std::vector<int64_t> &kept);
/// The program that distributes all units, which are owned equally. Its value is stepOf if each stage moves a unit,
/// without the latencies of the exchanges (`latenciesOf`). It has no memory limit.
Program movedProgram(const Group &group);
/// The latencies of the two exchanges of a stage. A stage that moves no unit has no exchanges.
Time latenciesOf(const Group &group);

/// The memory of the group's processes as a maximum, in bytes. `limit`: the most bytes allowed, or -1.
Maximum memoryOf(const Group &group, const Program &program, Wide limit);

} // namespace pipec::portions
