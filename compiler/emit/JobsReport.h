// What background jobs get done in a plan, and what they may cost it, in figures: for `pipec report`.
#pragma once

#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Simulate.h"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace pipec::emit {

/// A window of a rank in a step: before which pass, and how long.
struct WindowRow {
  const plan::Operation *operation = nullptr; // of the plan, which outlives the report
  int64_t microbatch = 0;
  plan::Time length = 0;
};

/// A job, in a step of the plan's own times.
struct JobRow {
  std::string name;
  plan::Time piece = 0;                        // without its overhead
  double resumes = 0;                          // of its ranks, that lie one behind the other
  std::vector<int64_t> pieces;                 // a rank each
  std::vector<std::vector<WindowRow>> windows; // likewise
  double useful = 0;                           // of the idle time of the ranks that it runs on
  double samplesPerSecond = 0;
};

/// None where the plan has no jobs.
struct JobsReport {
  std::vector<JobRow> rows;
  plan::Time span = 0, delay = 0;
  bool delayProven = false;
  int64_t slowDown = 0;         // promised, in millionths
  double alone = 0, useful = 0; // of the ranks' time: the foreground's work; with that of jobs
};

/// `result`: of a walk of the variant without jobs.
Status jobsOf(const plan::Variant &variant, const simulate::Result &result, JobsReport &report);

/// Adds the keys of a report (design, section 7): `jobs`, and where there are some `slow_down_bound` and the others.
void addJson(const JobsReport &report, nlohmann::ordered_json &object);
/// Lines for people; none without jobs.
std::string textOf(const JobsReport &report);

} // namespace pipec::emit
