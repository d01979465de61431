// Where the samples of a batch are. Plain arithmetic, shared with the planner.
#pragma once

#include <cstdint>

namespace pipec::plan {

/// How many samples of a batch a member of a group has: sample i is on member i mod width, as number i / width of its
/// own.
constexpr int64_t samplesOf(int64_t batch, int64_t width, int64_t member) {
  return member < batch ? (batch - 1 - member) / width + 1 : 0;
}

} // namespace pipec::plan
