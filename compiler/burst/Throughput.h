// What a cluster gets done under a plan, by formula: the foreground's samples, and those of background jobs, one a
// rank, in what it leaves. Cluster throughput as DeepPool (arXiv 2112.10065) counts it; the formula is ours, and knows
// neither pieces of jobs nor their overhead.
#pragma once

#include "compiler/burst/Costs.h"

namespace pipec::burst {

/// A job of one rank: so many samples an iteration.
struct Background {
  int64_t samples = 1;
  Time time = 0;           // of an iteration, alone
  double efficient = 0.97; // of its rate alone, in the idle time of a rank that the foreground uses
};

/// Ratios, dimensionless; 0 where something takes no time.
struct Throughput {
  double cluster = 0;    // samples/s of both, over the foreground's alone under data parallelism
  double foreground = 0; // its samples/s, over those of data parallelism
  double bound = 0;      // 1/u; u: data parallelism's samples/s over ranks × the background's alone
};

/// A rank that the plan never uses runs its job all the time, at its rate alone. Without a background job (time 0) the
/// cluster does the foreground's samples alone, and the bound is 0. The bound holds for plans under which no rank does
/// more samples a second of the foreground than of the background: a foreground on so few ranks that its local batch is
/// above the background's may pass it (VGG-16 of batch 16 on one of 8 ranks: 2.69, the bound 2.64).
Throughput throughputOf(const Problem &problem, const Plan &plan, const Background &background);

} // namespace pipec::burst
