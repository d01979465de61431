// Times and sizes as people read them, the same in every message.
#pragma once

#include "runtime/plan/Plan.h"

#include <string>

namespace pipec::plan {

/// "1.5 GiB", "24 MiB", "17 B": exact where it can be said in at most three decimals, else rounded to them.
std::string bytesText(Bytes bytes);
/// "12.345 ms", "601 us", "7 ps".
std::string timeText(Time time);
/// As JSON has times.
inline double milliseconds(Time time) { return double(time) / 1e9; }
/// "12.5 GB/s", of bytes a second.
std::string bandwidthText(int64_t bandwidth);

} // namespace pipec::plan
