// A row of what `pipec search` prints: a schedule compiled for the spec, or why it was not.
#pragma once

#include "compiler/schedule/model/Objective.h"
#include "compiler/schedule/model/Problem.h"
#include "runtime/plan/Plan.h"
#include "tools/pipec/Commands.h"

#include <nlohmann/json.hpp>

#include <string>
#include <unistd.h>
#include <vector>

namespace pipec {

struct Row {
  std::string name;
  plan::Certificate certificate;
  double bubble = 0; // of the span
  plan::Bytes peak = 0;
  int32_t stages = 0;
  schedule::Problem problem;
  schedule::Words words; // that its plan runs
  std::string wrong;     // why there is no plan; empty: there is one
};

inline double gap(plan::Time time, plan::Time bound) { return bound > 0 ? double(time) / double(bound) - 1 : 0; }
inline double milliseconds(plan::Time time) { return double(time) / 1e9; }

/// Says on a terminal what is being tried.
class Progress {
public:
  explicit Progress(bool shown) : shown(shown && isatty(STDERR_FILENO)) {}
  ~Progress() { say(""); }
  void say(const std::string &what) const;

private:
  bool shown;
};

/// Compiles the spec with `over` laid over it. False where the spec does not allow that: no row for it.
bool row(const CommandOptions &options, const std::vector<std::string> &over, Row &made);

/// A row for `auto` with this objective, and one for each schedule of the catalogue. A schedule that cuts the model
/// into another number of stages than the spec's costs are of has a row without figures.
std::vector<Row> scheduleRows(const CommandOptions &options, schedule::Objective objective, int32_t stages,
                              const Progress &progress);
/// Sorts rows by the objective; those without a plan come last.
void sortRows(std::vector<Row> &rows, schedule::Objective objective);
/// The rows as a table; gaps are those of the objective.
std::string tableOf(const std::vector<Row> &rows, schedule::Objective objective);
/// `auto` for this objective, as --set takes it.
std::string autoFor(schedule::Objective objective);

/// The table, or the rows as JSON, with what else the object holds; the exit code.
int print(const CommandOptions &options, const std::vector<Row> &rows, const std::string &table,
          const nlohmann::ordered_json &beside = nlohmann::ordered_json::object());

} // namespace pipec
