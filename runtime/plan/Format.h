// The sixteen bytes before a plan's FlatBuffer (design, section 5), shared by writer and reader.
#pragma once

#include "runtime/plan/Kinds.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pipec::plan {

inline constexpr std::string_view kMagic = "PIPEPLAN";
inline constexpr uint16_t kMajor = 1;
// A plan is written in the oldest minor version that has all that it uses: 3 (what collectives carry, and their
// groups), or that of its newest kind, of the cut, of what B adds to a context, of starts in launch order, of
// replicas, of shards, of jobs, of stages on several ranks
// and what they hand on, or of shared weights.
inline constexpr uint16_t kOldestWritten = 3;
inline constexpr uint16_t kWithCut = 4, kWithBackwardContext = 4, kWithLaunchOrder = 5, kWithReplicas = 6,
                          kWithShards = 7, kWithJobs = 8, kWithStageGroups = 9, kWithBoundaries = 10,
                          kWithSharedWeights = 11;
// The newest that is read.
inline constexpr uint16_t kMinor =
    std::max(kWithSharedWeights, uint16_t(std::ranges::max(kKindTable, {}, &KindRow::since).since));
// Where the fields stand; each little endian.
inline constexpr size_t kMajorAt = 8;
inline constexpr size_t kMinorAt = 10;
inline constexpr size_t kChecksumAt = 12;
inline constexpr size_t kHeaderBytes = 16;

} // namespace pipec::plan
