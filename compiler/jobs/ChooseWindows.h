// Chooses the waits of a plan that pieces of jobs may fill, and the length of a piece: the choice with the most useful
// time, over all thresholds of a window's length and all numbers of atoms with a delay (runtime/simulate/Pieces.h) that
// keeps the promise.
#pragma once

#include "compiler/jobs/Jobs.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"

#include <vector>

namespace pipec::jobs {

/// A job that got no window on any rank that may run it.
struct Unused {
  size_t job = 0;         // in Jobs::work
  plan::Time longest = 0; // longest wait of its ranks
  int64_t least = 0;      // slow_down, in millionths, that its shortest piece would need for a window; 0: none suffices
};

/// Gives a variant its jobs, windows and pieces, and adds their delay to its certificate, which must have a span.
/// `jobOf`: by rank, an index into the jobs; -1: none. The variant's times stay the same; its programs are no longer
/// rolled. Ranks must not have shards. Of more than 4,096 thresholds or 512 numbers of atoms, that many are considered,
/// evenly spread. At most 34 thresholds are tried, the most promising first, until within a thousandth of the best
/// possible; each trial takes a few simulations of the plan.
Status chooseWindows(const Jobs &jobs, const std::vector<int32_t> &jobOf, plan::Variant &variant,
                     std::vector<Unused> &unused);

} // namespace pipec::jobs
