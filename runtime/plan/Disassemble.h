// A plan as text, for people and FileCheck, and the names of instructions and queues in every message.
#pragma once

#include "runtime/plan/Place.h"

#include <string>
#include <vector>

namespace pipec::plan {

struct DisassembleOptions {
  int32_t rank = -1;    // -1: all
  int32_t variant = -1; // -1: all
};

/// One line per instruction; segments as `repeat 12 { … }` with the trip as `t`. The text of a plan never changes
/// within a release. For a rank or variant that the plan does not have, returns only the plan's header.
std::string disassemble(const Plan &plan, const DisassembleOptions &options);

/// "rank 3: BW stage 3 microbatch 7" or "rank 3: send F stage 3 microbatch 7 to rank 4": how every message names an
/// instruction.
std::string describe(const Place &place, const Operation &operation, int64_t microbatch);
/// Without the rank: "F stage 1 microbatch 3".
std::string describe(const Operation &operation, int64_t microbatch);
/// The same without the replica or shard.
inline std::string describe(int32_t rank, const Operation &operation, int64_t microbatch) {
  return describe(Place{.rank = rank}, operation, microbatch);
}

/// A name for each queue, from what runs on it: "compute", "weights", "updates"; of a communicator "send to 3", "recv
/// from 2", "link with 3" (one peer, both ways) or "transfers".
std::vector<std::string> queueNames(const Program &program);
std::string queueName(const Program &program, uint32_t queue);

} // namespace pipec::plan
