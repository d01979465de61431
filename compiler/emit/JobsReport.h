// Figures about background jobs in a plan, and their possible cost, for `pipec report`.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Simulate.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace pipec::emit {

/// A window of a rank in a step: the pass after it, and its length.
struct WindowRow {
  const plan::Operation *operation = nullptr; // in the plan, which must outlive the report
  int64_t microbatch = 0;
  plan::Time length = 0;
};

/// A job in a step, at the plan's own times.
struct JobRow {
  std::string name;
  plan::Time piece = 0; // length of a piece without its overhead
  /// Resumes per step on its ranks, one after the other; the delay is this many pieces.
  double resumes = 0;
  std::vector<int64_t> pieces;                 // by rank
  std::vector<std::vector<WindowRow>> windows; // by rank
  double useful = 0;                           // fraction of the idle time of its ranks that it uses
  double samplesPerSecond = 0;
};

/// No rows if the plan has no jobs.
struct JobsReport {
  std::vector<JobRow> rows;
  plan::Time span = 0, delay = 0;
  bool delayProven = false;
  int64_t slowDown = 0;         // promised limit, in millionths of a step
  double alone = 0, useful = 0; // fraction of the ranks' time: work of the foreground alone; with the jobs' work
};

/// `result`: from a simulation of the variant without jobs.
Status jobsOf(const plan::Variant &variant, const simulate::Result &result, JobsReport &report);

/// Adds the keys of a report (design, section 7): `jobs` and, if there are jobs, `slow_down_bound` and the others.
void addJson(const JobsReport &report, nlohmann::ordered_json &object);
/// Lines for people; none without jobs.
std::string textOf(const JobsReport &report);

} // namespace pipec::emit
