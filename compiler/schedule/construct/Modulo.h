// Building blocks in real time, by modulo scheduling of one microbatch. The passes are placed one after the other. A
// pass goes where its rank is free of the passes of this microbatch and of all other microbatches, which run the same
// passes a multiple of the interval earlier or later.
#pragma once

#include "compiler/schedule/model/Block.h"

#include <optional>

namespace pipec::schedule {

struct ModuloOptions {
  Time interval = 1;
  /// Picoseconds added to each hand-over of a forward (a backward) between ranks: room for delays that the block's
  /// timing leaves out. The price is memory.
  Time extraDown = 0, extraUp = 0;
};

/// The block in which each pass starts as early as possible, in data order; none if a pass finds no room. Slots are
/// picoseconds. O(stages · stages per rank). Needs check(problem) to have passed.
std::optional<Block> moduloBlock(const Problem &problem, const ModuloOptions &options);

/// The peak memory of each rank, in bytes, when the block repeats for ever.
std::vector<__int128> steadyPeaks(const Problem &problem, const Block &block);

} // namespace pipec::schedule
