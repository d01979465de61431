// Compares the plan of a spec with `schedule: burst` to data parallelism, static splits and the paper's planner. The
// spec's background job runs in the time that each plan leaves idle.
#pragma once

#include "compiler/compare/Comparison.h"

namespace pipec {

/// A row without a problem and words.
struct BurstRow : Row {
  std::vector<int32_t> widths; // by layer
  plan::Time device = 0;       // device time of a step: ranks × time for which the step occupies them
  // Ratios.
  double foreground = 0; // samples/s of the foreground, divided by those of data parallelism
  double useful = 0;     // fraction of the time of all ranks that is work of the foreground or of jobs
  double cluster = 0;    // samples/s of both, divided by those of data parallelism alone
  /// Upper bound of `cluster`: 1/u, where u is data parallelism's samples/s divided by ranks × the samples/s of the
  /// first job alone; 0: no job.
  double bound = 0;
};

/// Rows: data parallelism alone and with jobs, all layers on each smaller number of ranks, the paper's planner at
/// several limits, and the spec's own plan ("exact", unless the spec asks for another planner). False after an error,
/// which has been printed.
bool compareBursts(const Source &source, const Say &say, std::vector<BurstRow> &rows, Failure &failure);

} // namespace pipec
