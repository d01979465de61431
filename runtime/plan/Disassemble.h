// A plan as text, for people and FileCheck.
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace pipec::plan {

struct DisassembleOptions {
  int32_t rank = -1;    // -1: all
  int32_t variant = -1; // -1: all
};

std::string disassemble(const Plan &plan, const DisassembleOptions &options);

/// "rank 3: BW stage 3 microbatch 7" or "rank 3: send F stage 3 microbatch 7 to rank 4": how every message names an
/// instruction.
std::string describe(int32_t rank, const Operation &operation, int64_t microbatch);

} // namespace pipec::plan
