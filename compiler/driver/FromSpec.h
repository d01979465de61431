// Converts a spec to the design level: the pipeline with its block or words, and locations that point into the YAML.
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
  /// A module with one `pipe.pipeline`. Null after an error, which names the place in the spec: an unknown schedule or
  /// parameter, a value that contradicts what the schedule fixes, or nothing fits into memory.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Code code = Code::Input;                                   // code of the error
  schedule::Objective objective = schedule::Objective::Span; // objective of `auto`
  /// The same problem on the placements that `auto` could have chosen instead.
  std::vector<schedule::Problem> alternatives;
};
/// Options of the search of `auto`.
struct SearchRoom {
  int32_t buffers = 2;       // transfer buffers at each end of a pair that memory is reserved for
  schedule::Bytes spare = 0; // more bytes of each rank's memory to leave free
  int64_t effort = 100;      // hundredths of the usual work
  bool byOther = false;      // search for the objective that the spec does not name
  bool withoutLimit = false; // ignore the memory limit
  bool makesPrograms = true; // programs will be made, and must fit into this machine's memory
  /// On a request to stop, the search ends with the best order so far; an error if there is none.
  std::stop_token stop = {};
};
Imported fromSpec(const spec::Spec &spec, mlir::MLIRContext &context, SearchRoom room = {});

/// A catalogue schedule and its time by the objective, on links that never queue, if every R ran while its rank waits.
struct CatalogueTime {
  schedule::Time time = 0;
  std::string name;
  auto operator<=>(const CatalogueTime &) const = default;
};
/// For a spec with `schedule: auto`: the catalogue schedules that match its stages and fit into memory with the buffers
/// they need, the fastest first. On a request to stop, those examined so far.
std::vector<CatalogueTime> catalogueTimes(const spec::Spec &spec, mlir::MLIRContext &context,
                                          const std::stop_token &stop);

/// For a spec with a schedule that does not fit into memory: the schedules that would fit, with the buffers they need,
/// if `schedule: NAME` replaced it: "1f1b, v-half, auto". If costs are given by stage, only schedules with the same
/// number of stages.
std::string fittingSchedules(const spec::Spec &spec, int32_t stages, mlir::MLIRContext &context);

/// Whether `auto` only chooses from the catalogue for this spec, since the search makes no words with slices or two
/// copies.
bool choosesFromCatalogue(const spec::Spec &spec);

/// The problems that a search would use for this spec, whatever its schedule: one for each placement that the spec
/// allows.
struct SearchSpace {
  std::vector<schedule::Problem> problems; // empty after an error
  schedule::Objective objective = schedule::Objective::Span;
};
SearchSpace searchSpaceOf(const spec::Spec &spec, mlir::MLIRContext &context);

/// The least memory limit of a rank under which `auto` finds an order for this spec, with one transfer buffer at each
/// end.
schedule::Bytes leastLimitOf(const spec::Spec &spec, mlir::MLIRContext &context);

/// A problem of this spec with costs, sizes and links replaced by those of the spec; before, it may have had measured
/// ones. None after an error.
std::optional<schedule::Problem> withFigures(const spec::Spec &spec, schedule::Problem problem,
                                             mlir::MLIRContext &context);

/// The choices of `cut: auto`.
struct CutSpace {
  schedule::CutWork work;
  schedule::Cut even; // the most even cut
  /// With `schedule: auto`: the catalogue schedules that stand in for the result of a search.
  std::vector<std::string> schedules;
};
/// Nothing after an error.
std::optional<CutSpace> cutSpaceOf(const spec::Spec &spec, mlir::MLIRContext &context);

/// The choices of `recompute: auto`.
struct RecomputeSpace {
  schedule::MayAgain may;              // stages that save memory if recomputed
  std::vector<schedule::Stages> first; // choices to try first
  std::vector<std::string> schedules;  // as in CutSpace
  int64_t forwards = 0;                // number of F in a step
  plan::LeastTime lower;               // lower bound for all choices
};
/// For a spec with a cut. None after an error.
std::optional<RecomputeSpace> recomputeSpaceOf(const spec::Spec &spec, mlir::MLIRContext &context);

/// Problems that bound every choice of stages on every placement (schedule::casesOf).
schedule::LeastWays choicesOf(const spec::Spec &spec, mlir::MLIRContext &context);

/// The estimate of a cut, or of a choice of stages to recompute, before it is compiled.
struct Trial {
  schedule::TrialCost cost;
  bool fits = true;         // whether some order fits into memory
  plan::LeastTime lower;    // lower bound for all orders, if some order fits
  schedule::Time least = 0; // lower bound for the schedule's own order; 0: not known
};
/// Like leastLimitOf, for the cut with the least need among those tried.
schedule::Bytes leastLimitOfCuts(spec::Spec spec, mlir::MLIRContext &context);
/// For a spec with a cut; none if the cut cannot be scheduled. If the stages to recompute are still open, the best of
/// some choices. `schedules`: from CutSpace or RecomputeSpace. `lower`: the resulting Trial::lower if some order fits,
/// if that is known already.
std::optional<Trial> tryChoice(const spec::Spec &spec, const std::vector<std::string> &schedules,
                               mlir::MLIRContext &context, std::optional<plan::LeastTime> lower = {});

/// The same for a spec with the stages to recompute still open.
std::optional<Trial> tryRecompute(const spec::Spec &spec, const std::vector<std::string> &schedules,
                                  mlir::MLIRContext &context);

/// Reports the reader's findings as diagnostics of the context.
void report(const std::vector<spec::Diagnostic> &diagnostics, mlir::MLIRContext &context);

} // namespace pipec
