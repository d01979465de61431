// Which time a search minimizes: that of one step alone (makespan), or that per step when steps follow each other
// (span).
#pragma once

#include <cstdint>

namespace pipec::schedule {

enum class Objective : uint8_t { Makespan, Span };

} // namespace pipec::schedule
