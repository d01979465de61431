// From a spec's path to a plan: reads, imports, runs the passes, emits. Says what is wrong on standard error, with the
// place.
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

/// Where a run went wrong, for `--json`. The message has been printed.
struct Failure {
  Code code = Code::Ok;
  std::string message, file;
  unsigned line = 0, column = 0;
};

/// How far a compile goes. Checked: until the spec is known to be right. Least: Compiled::leastLimit is found besides.
/// Space: Compiled::problems and `objective` are what a search would search in. Design, Programs: until that IR.
enum class Stage { Checked, Least, Space, Design, Programs, Plan };

struct Compiled {
  bool keepVisits = false; // wanted: walks that hold when each instruction runs
  bool encodes = true;     // wanted: the plan's bytes
  /// Wanted: asked to stop, what looks for an order, a cut or stages to recompute goes on with the best that it has. An
  /// error where it has none. What is no search is not cut short.
  std::stop_token stop;
  std::function<void(const std::string &)> says; // wanted: to be told what is done, again and again; or none
  std::string output; // the file that will be written, or empty: an error if it is one that is read
  std::string text;   // Stage::Design, Stage::Programs: the IR
  plan::Plan plan;    // Stage::Plan
  std::vector<uint8_t> bytes;
  // Of each variant; none where the plan was read from a file.
  std::vector<simulate::Result> walks;
  std::vector<schedule::Problem> problems;
  std::vector<schedule::LeastCases> proofs; // Stage::Space: of each problem; each case bounds all its plans
  std::vector<schedule::Words> words;       // Stage::Plan
  std::vector<std::map<std::string, int64_t>> parameters;    // of its schedule
  schedule::Objective objective = schedule::Objective::Span; // Stage::Space; of `auto`, Stage::Plan
  schedule::Bytes leastLimit = 0;                            // Stage::Least
  int32_t stages = 0; // that the spec says, or the first of its variants; 0: of layers, which any number cuts
  bool hasLayers = false, choosesCut = false; // the spec has layers, with `cut: auto`
  bool choosesRecompute = false;              // it has `recompute: auto`
  bool isBurst = false;                       // its schedule is `burst`
  bool wholeAsParts = false;                  // of `auto`: what is whole in a schedule takes what its two parts take
  bool isSharded = false;                     // its ranks have shards
  bool ofOwnPortions = false;                 // bounds are of a plan's own portions: what is left out goes by a rule
  int32_t degree = 1;                         // replicas of each rank
  bool isCutShort = false;                    // something that looks for the best was asked to stop
  double milliseconds = 0;
};

/// The objective's time of a plan, and its lower bound.
inline plan::Time timeOf(const plan::Certificate &certificate, schedule::Objective by) {
  return by == schedule::Objective::Span ? certificate.span : certificate.makespan;
}
inline plan::LeastTime boundOf(const plan::Certificate &certificate, schedule::Objective by) {
  return by == schedule::Objective::Span ? certificate.spanLowerBound : certificate.lowerBound;
}

/// Whether diagnostics are printed. A trial, of which there may be many, says nothing.
enum class Said { Everything, Nothing };

/// Runs up to `until`. False after an error, which `failure` holds.
bool compile(const std::string &path, const std::vector<std::string> &set, Stage until, Compiled &compiled,
             Failure &failure, Said said = Said::Everything);

/// The same of a spec that has been read, until Stage::Plan. Where it says what was measured (spec::Measured), order,
/// placement of transfers and buffers are made for that, and the plan then gets the costs and the network of the spec,
/// with the certificate that it has there: a loaded plan's costs are what a run's percentages are of.
bool compile(const spec::Spec &spec, Compiled &compiled, Failure &failure, Said said = Said::Everything);

/// Reads a spec's variants, or its one spec, without compiling them. False after an error, as compile().
bool readSpecs(const std::string &path, const std::vector<std::string> &set, std::vector<spec::Spec> &specs,
               Failure &failure, Said said = Said::Everything);

} // namespace pipec
