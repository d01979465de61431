// The price of an order of transfers, by which transfers are placed: its mean makespan if the network is ten times as
// slow in one step of eleven. So orders that are also good on a slow network are preferred.
#pragma once

#include "runtime/plan/Plan.h"

#include <optional>

namespace pipec::simulate {

inline constexpr int64_t kSlower = 10;

/// The price from the makespan, and from the makespan with every transfer `kSlower` times as long.
inline __int128 priceOf(plan::Time makespan, plan::Time slow) { return __int128(kSlower) * makespan + slow; }
/// The price of a variant, simulated; nothing if its programs stop.
std::optional<__int128> priceOf(plan::Variant variant);

} // namespace pipec::simulate
