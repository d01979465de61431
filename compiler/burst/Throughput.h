// The throughput of a cluster under a plan, by formula: the foreground's samples, and those of background jobs, one per
// rank, in the time that the foreground leaves. Cluster throughput is defined as in DeepPool (arXiv 2112.10065); the
// formula is ours, and ignores pieces of jobs and their overhead.
#pragma once

#include "compiler/burst/Costs.h"

namespace pipec::burst {

/// A background job of one rank, with `samples` samples per iteration.
struct Background {
  int64_t samples = 1;
  Time time = 0;           // time of an iteration without a foreground
  double efficient = 0.97; // fraction of its rate that it reaches in the idle time of a rank used by the foreground
};

/// Ratios, dimensionless; 0 if something takes no time.
struct Throughput {
  double cluster = 0;    // samples/s of both, divided by those of data parallelism's foreground alone
  double foreground = 0; // samples/s of the foreground, divided by those of data parallelism
  /// 1/u, where u is data parallelism's samples/s divided by ranks × the background's samples/s alone
  double bound = 0;
};

/// A rank that the plan never uses runs its job all the time, at its full rate. Without a background job (time 0) the
/// cluster runs only the foreground, and the bound is 0. The bound holds for plans in which no rank runs more samples
/// per second of the foreground than of the background. A foreground on so few ranks that its local batch exceeds the
/// background's may exceed the bound (VGG-16 of batch 16 on one of 8 ranks: 2.69, the bound 2.64).
Throughput throughputOf(const Problem &problem, const Plan &plan, const Background &background);

} // namespace pipec::burst
