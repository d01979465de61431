// The samples of a batch that each member of a group has. Plain arithmetic, shared with the planner.
#pragma once

#include <cstdint>

namespace pipec::plan {

/// The number of samples of a batch on a member of a group. Sample i is number i / width on member i mod width.
constexpr int64_t samplesOf(int64_t batch, int64_t width, int64_t member) {
  return member < batch ? (batch - 1 - member) / width + 1 : 0;
}

} // namespace pipec::plan
