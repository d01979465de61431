// The time that a search minimizes: that of one step alone (makespan), or the time per step when steps follow each
// other (span).
#pragma once

#include <cstdint>

namespace pipec::schedule {

enum class Objective : uint8_t { Makespan, Span };

} // namespace pipec::schedule
