// Compiles a spec, given by its path, to a plan: reads, imports, runs the passes, emits. Prints errors on standard
// error, with their place.
#pragma once

#include "compiler/schedule/model/LeastProblem.h"
#include "compiler/schedule/model/Objective.h"
#include "compiler/schedule/model/Problem.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Simulate.h"

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

namespace pipec {

namespace spec {
struct Spec;
}

/// The first error of a run, for `--json`. Its message has been printed already.
struct Failure {
  Code code = Code::Ok;
  std::string message, file;
  unsigned line = 0, column = 0;
};

/// How far a compile goes. Checked: until the spec is known to be right. Least: also finds Compiled::leastLimit. Space:
/// fills Compiled::problems and `objective` with what a search would use. Design, Programs: until that IR.
enum class Stage { Checked, Least, Space, Design, Programs, Plan };

struct Compiled {
  bool keepVisits = false; // input: whether simulations record when each instruction runs
  bool encodes = true;     // input: whether to encode the plan into bytes
  /// Input: on a request to stop, a search for an order, a cut or stages to recompute continues with its best result so
  /// far; an error if it has none. Everything else is not interrupted.
  std::stop_token stop;
  std::function<void(const std::string &)> says; // input: called repeatedly with progress messages; may be empty
  std::string output; // input: the file to be written, or empty; an error if the compile also reads this file
  std::string text;   // Stage::Design, Stage::Programs: the IR
  plan::Plan plan;    // Stage::Plan
  std::vector<uint8_t> bytes;
  // By variant; empty if the plan was read from a file.
  std::vector<simulate::Result> walks;
  std::vector<schedule::Problem> problems;
  std::vector<schedule::LeastCases> proofs;                  // Stage::Space: by problem; each case bounds all its plans
  std::vector<schedule::Words> words;                        // Stage::Plan
  std::vector<std::map<std::string, int64_t>> parameters;    // of the variant's schedule
  schedule::Objective objective = schedule::Objective::Span; // Stage::Space; for `auto` also Stage::Plan
  schedule::Bytes leastLimit = 0;                            // Stage::Least
  /// Stages of the spec or of its first variant; 0: the spec has layers that can be cut into any number of stages.
  int32_t stages = 0;
  bool hasLayers = false, choosesCut = false; // the spec has layers; the spec has layers and `cut: auto`
  bool choosesRecompute = false;              // the spec has `recompute: auto`
  bool isBurst = false;                       // the spec's schedule is `burst`
  bool wholeAsParts = false;                  // for `auto`: a whole backward counts as long as its two parts
  bool isSharded = false;                     // the spec's ranks have shards
  /// Bounds hold only for the plan's own portions, since a rule decides which units are left out.
  bool ofOwnPortions = false;
  int32_t degree = 1;      // replicas of each rank
  bool isCutShort = false; // a search was asked to stop
  double milliseconds = 0;
};

/// A plan's time by the objective, and the time's lower bound.
inline plan::Time timeOf(const plan::Certificate &certificate, schedule::Objective by) {
  return by == schedule::Objective::Span ? certificate.span : certificate.makespan;
}
inline plan::LeastTime boundOf(const plan::Certificate &certificate, schedule::Objective by) {
  return by == schedule::Objective::Span ? certificate.spanLowerBound : certificate.lowerBound;
}

/// Whether diagnostics are printed. Trials, which may be many, print nothing.
enum class Said { Everything, Nothing };

/// Compiles up to `until`. False after an error, which is in `failure`.
bool compile(const std::string &path, const std::vector<std::string> &set, Stage until, Compiled &compiled,
             Failure &failure, Said said = Said::Everything);

/// Compiles a spec that has been read, up to Stage::Plan. If the spec has measurements (spec::Measured), order,
/// placement of transfers and buffers are made for the measured times. The plan then gets the costs and the network of
/// the spec, and the certificate for these, since the percentages of a run refer to a loaded plan's costs.
bool compile(const spec::Spec &spec, Compiled &compiled, Failure &failure, Said said = Said::Everything);

/// Reads a spec's variants, or its one spec, without compiling. False after an error, as in compile().
bool readSpecs(const std::string &path, const std::vector<std::string> &set, std::vector<spec::Spec> &specs,
               Failure &failure, Said said = Said::Everything);

} // namespace pipec
