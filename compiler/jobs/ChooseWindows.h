// Which waits of a plan pieces of jobs may fill, and how long a piece is: of all thresholds of a window's length and
// all numbers of atoms whose delay (runtime/simulate/Pieces.h) keeps the promise, the most useful time.
#pragma once

#include "compiler/jobs/Jobs.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <vector>

namespace pipec::jobs {

/// A job that got no window on any rank that may run it.
struct Unused {
  size_t job = 0;         // in Jobs::work
  plan::Time longest = 0; // of the waits of its ranks
  int64_t least = 0;      // slow_down, in millionths, at which its shortest piece would get one; 0: at none
};

/// Gives a variant its jobs, windows and pieces, and its certificate, which has a span, their delay. `jobOf`: of each
/// rank, an index into the jobs; -1: none. Its times stay as they are; its programs are no longer rolled. Ranks have no
/// shards. Of more than 4,096 thresholds or 512 numbers of atoms so many are looked at, spread evenly. At most
/// 34 thresholds are tried, the most promising first, up to a thousandth of the best; each takes a few walks of the
/// plan.
Status chooseWindows(const Jobs &jobs, const std::vector<int32_t> &jobOf, plan::Variant &variant,
                     std::vector<Unused> &unused);

} // namespace pipec::jobs
