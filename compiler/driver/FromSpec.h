// From a spec to the design level: the pipeline with its block or words, locations pointing into the YAML.
#pragma once

#include "compiler/schedule/cut/CutSearch.h"
#include "compiler/schedule/model/LeastProblem.h"
#include "compiler/schedule/model/Objective.h"
#include "compiler/schedule/model/Problem.h"
#include "compiler/schedule/recompute/RecomputeSearch.h"
#include "compiler/spec/Diagnostic.h"
#include "compiler/spec/Spec.h"
#include "dialects/pipe/Pipe.h"
#include "runtime/plan/LeastTime.h"
#include "runtime/plan/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <compare>
#include <stop_token>
#include <string>
#include <vector>

namespace pipec {

struct Imported {
  /// With one `pipe.pipeline`. Null after an error, which names the place in the spec: an unknown schedule or
  /// parameter, a value that contradicts what the schedule fixes, or that nothing fits into memory.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Code code = Code::Input;                                   // of an error
  schedule::Objective objective = schedule::Objective::Span; // of `auto`
  /// The same problem on the placements that `auto` could have chosen instead.
  std::vector<schedule::Problem> alternatives;
};
/// How `auto` searches.
struct SearchRoom {
  int32_t buffers = 2;       // transfer buffers at each end of a pair, for which room is left
  schedule::Bytes spare = 0; // of each rank's memory, left free beside them
  int64_t effort = 100;      // hundredths of the usual work
  bool byOther = false;      // for the other objective than the spec's
  bool withoutLimit = false; // as if memory had none
  bool makesPrograms = true; // which must fit into this machine's memory
  std::stop_token stop = {}; // asked to stop, the search ends with the best order so far; an error where there is none
};
Imported fromSpec(const spec::Spec &spec, mlir::MLIRContext &context, SearchRoom room = {});

/// A schedule of the catalogue and its time (of the objective), on links that never queue, if every R ran while its
/// rank waits.
struct CatalogueTime {
  schedule::Time time = 0;
  std::string name;
  auto operator<=>(const CatalogueTime &) const = default;
};
/// For a spec with `schedule: auto`, the catalogue's schedules that go with its stages and fit into memory with the
/// buffers that they need, the fastest first. Asked to stop, those that it has come to.
std::vector<CatalogueTime> catalogueTimes(const spec::Spec &spec, mlir::MLIRContext &context,
                                          const std::stop_token &stop);

/// For a spec whose schedule does not fit into memory, the schedules that would, with the buffers that they need, if
/// `schedule: NAME` replaced it: "1f1b, v-half, auto". Where costs are of a stage, only those of as many stages.
std::string fittingSchedules(const spec::Spec &spec, int32_t stages, mlir::MLIRContext &context);

/// Whether `auto` only chooses from the catalogue for this spec: the search makes no words with slices or two copies.
bool choosesFromCatalogue(const spec::Spec &spec);

/// What a search would search in for this spec, whatever its schedule: a problem for each placement that the spec
/// allows.
struct SearchSpace {
  std::vector<schedule::Problem> problems; // none after an error
  schedule::Objective objective = schedule::Objective::Span;
};
SearchSpace searchSpaceOf(const spec::Spec &spec, mlir::MLIRContext &context);

/// The least limit of a rank's memory under which `auto` finds an order for this spec, with one transfer buffer an end.
schedule::Bytes leastLimitOf(const spec::Spec &spec, mlir::MLIRContext &context);

/// A problem of this spec with the spec's costs, sizes and links, which may have been made for what was measured.
/// Nothing after an error.
std::optional<schedule::Problem> withFigures(const spec::Spec &spec, schedule::Problem problem,
                                             mlir::MLIRContext &context);

/// What `cut: auto` chooses from.
struct CutSpace {
  schedule::CutWork work;
  schedule::Cut even;                 // as equal as can be
  std::vector<std::string> schedules; // with `auto`: of the catalogue, those that stand for what a search would find
};
/// Nothing after an error.
std::optional<CutSpace> cutSpaceOf(const spec::Spec &spec, mlir::MLIRContext &context);

/// What `recompute: auto` chooses from.
struct RecomputeSpace {
  schedule::MayAgain may;              // the stages for which it saves memory
  std::vector<schedule::Stages> first; // choices to begin with
  std::vector<std::string> schedules;  // as in CutSpace
  int64_t forwards = 0;                // of a step
  plan::LeastTime lower;               // no choice takes less
};
/// Of a spec with a cut. Nothing after an error.
std::optional<RecomputeSpace> recomputeSpaceOf(const spec::Spec &spec, mlir::MLIRContext &context);

/// What bounds every choice of stages on every placement (schedule::casesOf).
schedule::LeastWays choicesOf(const spec::Spec &spec, mlir::MLIRContext &context);

/// What a cut, or a choice of stages to recompute, comes to before it is compiled.
struct Trial {
  schedule::TrialCost cost;
  bool fits = true;         // some order fits into memory
  plan::LeastTime lower;    // where some order fits: no order takes less
  schedule::Time least = 0; // the schedule's order takes no less; 0: not known
};
/// As leastLimitOf, of the cut that needs least among those looked at.
schedule::Bytes leastLimitOfCuts(spec::Spec spec, mlir::MLIRContext &context);
/// Of a spec with a cut. Nothing where it cannot be scheduled. Where it is still open which stages are recomputed, the
/// best of some choices. `schedules`: from the space. `lower`: what its Trial::lower is, if it fits, where that is
/// known.
std::optional<Trial> tryChoice(const spec::Spec &spec, const std::vector<std::string> &schedules,
                               mlir::MLIRContext &context, std::optional<plan::LeastTime> lower = {});

/// The same of a spec in which the stages are still open.
std::optional<Trial> tryRecompute(const spec::Spec &spec, const std::vector<std::string> &schedules,
                                  mlir::MLIRContext &context);

/// What the reader found wrong, as diagnostics of the context.
void report(const std::vector<spec::Diagnostic> &diagnostics, mlir::MLIRContext &context);

} // namespace pipec
