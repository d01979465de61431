// Building blocks (Pipeline Parallelism with Controllable Memory, arXiv 2405.15362, section 3): the passes of one
// microbatch on all stages with their offsets; a schedule repeats the block every interval.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <string>
#include <vector>

namespace pipec::schedule {

/// Start slots of microbatch 0's passes, one for each stage. Slots have no length: only their order matters to a word.
struct Block {
  int64_t interval = 1;
  std::vector<int64_t> forward;
  std::vector<int64_t> backwardInput;  // of BW when fused
  std::vector<int64_t> backwardWeight; // empty when fused
};

/// Checks a block: the sizes of its vectors, the data order (F from stage to stage, B back, W after B), and that no two
/// passes of a rank share a slot modulo the interval. Returns an empty string if the block is right, else what is wrong
/// and where.
std::string check(const Problem &problem, const Block &block);

/// The words of a block repeated for every microbatch: each rank's passes in the order of their start slots. Words have
/// no times, so slots in which a rank does nothing are gone (the paper's squeezing). O(letters + stages · log). Needs
/// check(problem, block) to have passed.
Words repeat(const Problem &problem, const Block &block);

} // namespace pipec::schedule
