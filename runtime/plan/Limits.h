// The most that pipec accepts (design, section 3). The spec reader, the JSON Schema and the plan's rules use these
// limits.
#pragma once

#include <cstdint>
#include <string_view>

namespace pipec::limits {

inline constexpr int64_t kRanks = 65'536;
inline constexpr int64_t kStages = 1'048'576;           // chunks included
inline constexpr int64_t kLayers = int64_t(1) << 20;    // with replicas: of all stages
inline constexpr int64_t kModelLayers = 2'147'483'647;  // of any model: an int32 numbers them
inline constexpr int64_t kOpenParts = int64_t(1) << 20; // runs of layers of unfinished passes, on a rank at once
inline constexpr int64_t kProcesses = 65'536;
inline constexpr int64_t kMicrobatches = int64_t(1) << 20;
inline constexpr int64_t kExecutedInstructions = int64_t(1) << 31; // of one step, all ranks
inline constexpr int64_t kRankInstructions = int64_t(1) << 27; // of one step, one rank: checking keeps 12 bytes each
inline constexpr int64_t kExecutedWaits = int64_t(1) << 32;    // of one step, all ranks
inline constexpr int64_t kShardQueues = int64_t(1) << 24;      // of all processes, with shards
inline constexpr int64_t kVariants = 256;
inline constexpr int64_t kJobs = 256;
inline constexpr int64_t kAtoms = int64_t(1) << 20; // of an iteration of a job
inline constexpr int64_t kNameBytes = 256;          // of a variant, a schedule, a layer, a split
inline constexpr int64_t kJobNameBytes = 64;
/// Users type the names of jobs, and names of files contain them.
inline constexpr std::string_view kJobNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
inline constexpr int64_t kWholeSlowDown = 1'000'000; // millionths: a step twice as long
inline constexpr int64_t kProviderBytes = int64_t(1) << 18;
inline constexpr int64_t kTime = 1'000'000'000'000'000'000; // ps: one cost, and one step
inline constexpr int64_t kBytes = int64_t(1) << 60;
inline constexpr int64_t kSpecBytes = int64_t(16) << 20;
inline constexpr int64_t kOrderBytes = int64_t(256) << 20;
inline constexpr int64_t kTraceBytes = int64_t(4) << 30; // as read back
inline constexpr int64_t kPlanBytes = int64_t(1) << 30;

} // namespace pipec::limits
