// What an order of transfers costs, by which they are placed: as if in one step of eleven the network were ten times as
// slow, so that an order is preferred that holds then too.
#pragma once

#include "runtime/plan/Plan.h"

#include <optional>

namespace pipec::simulate {

inline constexpr int64_t kSlower = 10;

/// Of the makespan, and of that with every transfer `kSlower` times as long.
inline __int128 priceOf(plan::Time makespan, plan::Time slow) { return __int128(kSlower) * makespan + slow; }
/// The simulator's word on it; none if the programs stop.
std::optional<__int128> priceOf(plan::Variant variant);

} // namespace pipec::simulate
