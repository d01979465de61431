// A spec with `schedule: burst`: its plan beside data parallelism, static splits and the paper's planner, each with the
// spec's background job in what it leaves.
#pragma once

#include "compiler/compare/Comparison.h"

namespace pipec {

/// A row without a problem and words.
struct BurstRow : Row {
  std::vector<int32_t> widths; // by layer
  plan::Time device = 0;       // ranks × time that a step keeps them
  // Ratios.
  double foreground = 0; // its samples/s, over those of data parallelism
  double useful = 0;     // of the time of all ranks: the foreground's work and that of jobs
  double cluster = 0;    // samples/s of both, over those of data parallelism alone
  double bound =
      0; // no more than this: 1/u, u: data parallelism's samples/s over ranks × the first job's alone; 0: no job
};

/// Rows: data parallelism alone and with jobs, all layers on each smaller number of ranks, the paper's planner at
/// several limits, and the spec's own plan ("exact", unless it asks for another). False after an error, which has been
/// said.
bool compareBursts(const Source &source, const Say &say, std::vector<BurstRow> &rows, Failure &failure);

} // namespace pipec
