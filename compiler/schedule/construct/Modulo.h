// Building blocks in real time, by modulo scheduling of one microbatch. Its passes are placed one after the other, each
// where its rank is free of all passes of this microbatch and of the others, which do the same a multiple of the
// interval earlier or later.
#pragma once

#include "compiler/schedule/model/Block.h"

#include <optional>

namespace pipec::schedule {

struct ModuloOptions {
  Time interval = 1;
  /// Added to each hand-over down (up) the ranks: room for delays that the block's timing leaves out, paid for with
  /// memory.
  Time extraDown = 0, extraUp = 0;
};

/// The block whose passes start as early as they can, in the order of their data; none where some pass finds no room.
/// Slots are picoseconds. O(stages · stages a rank). Needs check(problem) to have passed.
std::optional<Block> moduloBlock(const Problem &problem, const ModuloOptions &options);

/// The most bytes that each rank holds when the block repeats for ever.
std::vector<__int128> steadyPeaks(const Problem &problem, const Block &block);

} // namespace pipec::schedule
