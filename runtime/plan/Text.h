// Times and sizes as people read them, the same in every message.
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace pipec::plan {

/// "1.5 GiB", "24 MiB", "17 B": exact if at most three decimals are enough, else rounded to three.
std::string bytesText(Bytes bytes);
/// "12.345 ms", "601 us", "7 ps".
std::string timeText(Time time);
/// The unit of times in JSON.
inline double milliseconds(Time time) { return double(time) / 1e9; }
/// "12.5 GB/s". `bandwidth`: bytes per second.
std::string bandwidthText(int64_t bandwidth);

} // namespace pipec::plan
