// The paper's planner, with our times. Source: DeepPool (arXiv 2112.10065) as in its released code (search of version
// 3), for a chain:
//
//   t[l][g] = min over widths h of layer l-1 of t[l-1][h] + reshards(h, g) + compute(l, g) + all-reduce(l, g)
//
// The widths h are tried from 1 upwards. A width may replace the best so far only if its amplification is below the
// limit, or below that of the best so far. The amplification of a layer is (reshards before it + compute + all-reduce
// without latencies) × g / compute on one rank if that compute takes more than 300 us, else 1. The amplification of the
// last layer is not used.
//
// Differences from the paper's code: its all-reduces take bytes / bandwidth for any width, without latencies, and those
// of convolutions lack a factor; and it gives branches separate ranks, while a chain has no branches. Latencies of an
// all-reduce count once per stage, at its first layer with gradients. So t differs from costOf by at most one rounding
// per layer.
#pragma once

#include "compiler/burst/Costs.h"

namespace pipec::burst {

/// 300 us: layers that take no longer on one rank have amplification 1
inline constexpr Time kLeastAmplified = 300'000'000;

/// `amplification`: the limit in millionths, 2'000'000 in the paper. There is always a plan. O(layers × widths²).
Plan paperPlan(const Problem &problem, int64_t amplification);

} // namespace pipec::burst
