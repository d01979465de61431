// Building blocks in real time: modulo scheduling of one microbatch, its passes placed one after the other where no
// earlier or later microbatch of the same block, an interval apart, has its own.
#pragma once

#include "compiler/schedule/model/Block.h"

#include <optional>

namespace pipec::schedule {

struct ModuloOptions {
  Time interval = 1;
  /// Added to each hop between ranks: room for what the block's timing leaves out, paid for with memory.
  Time extraDown = 0, extraUp = 0;
  /// W directly after its B; else in the first gap.
  bool weightAtOnce = false;
};

/// The block whose passes start as early as they can, in the order of their data; none where some pass finds no room.
/// Slots are picoseconds. O(stages · stages a rank). Needs check(problem) to have passed.
std::optional<Block> moduloBlock(const Problem &problem, const ModuloOptions &options);

/// Most that each rank holds when the block repeats for ever.
std::vector<__int128> steadyPeaks(const Problem &problem, const Block &block);

} // namespace pipec::schedule
