// The paper's planner, with our times. Source: DeepPool (arXiv 2112.10065) as its released code has it (its search of
// version 3), for a chain:
//
//   t[l][g] = min over widths h of layer l-1 of t[l-1][h] + reshards(h, g) + compute(l, g) + all-reduce(l, g)
//
// h from 1 upwards; one is admitted as the best so far's rival if its amplification is below the limit, or below that
// of the best so far. Amplification of a layer is (reshards before it + compute + all-reduce without latencies) × g /
// compute on one rank where that takes more than 300 us, else 1. The last layer's is asked by nobody.
//
// Where ours differ: its all-reduces take bytes / bandwidth whatever the width, without latencies, and those of
// convolutions lack a factor; and it gives branches ranks of their own, where a chain has none. Latencies of an
// all-reduce count once a stage, at its first layer with gradients. So t is within a rounding a layer of costOf.
#pragma once

#include "compiler/burst/Costs.h"

namespace pipec::burst {

inline constexpr Time kLeastAmplified = 300'000'000; // 300 us: what takes no longer on one rank has amplification 1

/// `amplification` in millionths, 2'000'000 in the paper. Never fails: there is always a plan. O(layers × widths²).
Plan paperPlan(const Problem &problem, int64_t amplification);

} // namespace pipec::burst
