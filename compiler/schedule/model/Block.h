// Building blocks (Pipeline Parallelism with Controllable Memory, arXiv 2405.15362, section 3): the passes of one
// microbatch on all stages with their offsets; a schedule repeats the block every interval.
#pragma once

#include "compiler/schedule/model/Problem.h"

#include <string>
#include <vector>

namespace pipec::schedule {

/// Start slots of microbatch 0, one a stage, in slots of the block's own unit; only their order matters to a word.
struct Block {
  int64_t interval = 1;
  std::vector<int64_t> forward;
  std::vector<int64_t> backwardInput;  // fused: of the backward
  std::vector<int64_t> backwardWeight; // empty when fused
};

/// Sizes, data order (F down, B up, W after B), and no two passes of a rank in one slot modulo the interval. Empty when
/// right, else what is wrong and where.
std::string check(const Problem &problem, const Block &block);

/// The words of a block repeated for every microbatch: each rank's passes by start slot. Squeezing is implied, since a
/// word has no times. O(letters + stages · log). Needs check(problem, block) to have passed.
Words repeat(const Problem &problem, const Block &block);

} // namespace pipec::schedule
