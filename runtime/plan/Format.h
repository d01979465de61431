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
// A plan is written in the oldest minor version that has everything the plan uses. Version 3 has what collectives
// carry, and their groups. The constants are the first versions with the cut, memory that B adds to a context, starts
// in launch order, replicas, shards, jobs, stages on several ranks, what these hand on, and shared weights. The table
// of kinds has the first version of each kind.
inline constexpr uint16_t kOldestWritten = 3;
inline constexpr uint16_t kWithCut = 4, kWithBackwardContext = 4, kWithLaunchOrder = 5, kWithReplicas = 6,
                          kWithShards = 7, kWithJobs = 8, kWithStageGroups = 9, kWithBoundaries = 10,
                          kWithSharedWeights = 11;
// The newest minor version that can be read.
inline constexpr uint16_t kMinor =
    std::max(kWithSharedWeights, uint16_t(std::ranges::max(kKindTable, {}, &KindRow::since).since));
// Offsets of the fields, in bytes. Fields are little endian.
inline constexpr size_t kMajorAt = 8;
inline constexpr size_t kMinorAt = 10;
inline constexpr size_t kChecksumAt = 12;
inline constexpr size_t kHeaderBytes = 16;

} // namespace pipec::plan
