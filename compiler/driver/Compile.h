// From a spec's path to a plan: reads, imports, runs the passes, emits. Says what is wrong on standard error, with the
// place.
#pragma once

#include "compiler/schedule/model/Objective.h"
#include "compiler/schedule/model/Problem.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Simulate.h"

#include <map>
#include <string>
#include <vector>

namespace pipec {

/// Where a run went wrong, for `--json`. The message has been printed.
struct Failure {
  Code code = Code::Ok;
  std::string message, file;
  unsigned line = 0, column = 0;
};

/// Checked: the spec is right. Least: and `leastLimit` says what memory `auto` needs for it. Space: `problems` and
/// `objective` say what a search by words searches for it.
enum class Stage { Checked, Least, Space, Design, Programs, Plan };

struct Compiled {
  bool keepVisits = false; // wanted: that walks hold when each instruction runs
  bool encodes = true;     // wanted: bytes
  std::string output;      // wanted: that it is none of the files that are read; may be empty
  std::string text;        // Stage::Design, Stage::Programs: the IR
  plan::Plan plan;         // Stage::Plan
  std::vector<uint8_t> bytes;
  // Of each variant; none where the plan was read from a file.
  std::vector<simulate::Result> walks;
  std::vector<schedule::Problem> problems;
  std::vector<schedule::Words> words;                        // Stage::Plan
  std::vector<std::map<std::string, int64_t>> parameters;    // of its schedule
  schedule::Objective objective = schedule::Objective::Span; // Stage::Space; of `auto`, Stage::Plan
  schedule::Bytes leastLimit = 0;                            // Stage::Least
  int32_t stages = 0;                                        // that the spec says, or the first of its variants
  double milliseconds = 0;
};

/// What a plan takes of the objective, and what bounds that.
inline plan::Time timeOf(const plan::Certificate &certificate, schedule::Objective by) {
  return by == schedule::Objective::Span ? certificate.span : certificate.makespan;
}
inline plan::Time boundOf(const plan::Certificate &certificate, schedule::Objective by) {
  return by == schedule::Objective::Span ? certificate.spanLowerBound : certificate.lowerBound;
}

/// Whether diagnostics are printed. A trial, of which there may be many, says nothing.
enum class Said { Everything, Nothing };

/// Runs up to `until`. False after an error, which `failure` holds.
bool compile(const std::string &path, const std::vector<std::string> &set, Stage until, Compiled &compiled,
             Failure &failure, Said said = Said::Everything);

} // namespace pipec
