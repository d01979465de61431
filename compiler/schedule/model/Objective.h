// What a search makes short.
#pragma once

#include <cstdint>

namespace pipec::schedule {

enum class Objective : uint8_t { Makespan, Span };

} // namespace pipec::schedule
