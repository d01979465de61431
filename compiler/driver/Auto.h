// What `schedule: auto` compiles: the words of its search with more and with less room for transfer buffers, and what
// of the catalogue could be better; the best of them stands.
#pragma once

#include "compiler/driver/FromSpec.h"
#include "compiler/schedule/model/Objective.h"
#include "compiler/schedule/model/Problem.h"
#include "compiler/spec/Spec.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Simulate.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <optional>
#include <string>

namespace pipec {

/// What one variant's spec came to.
struct Made {
  std::string text; // the IR, where compiling ends there
  plan::Variant variant;
  simulate::Result walk;
  schedule::Problem problem;
  schedule::Words words;
  std::map<std::string, int64_t> parameters;
  schedule::Objective objective = schedule::Objective::Span;
};

/// A spec whose words are searched for, and what it searches in; or one with a schedule of the catalogue.
struct Choice {
  spec::Spec spec;
  SearchRoom room;
  std::optional<spec::Spec> searched; // what the schedule is the answer to: the objective and the bounds are of that
};

/// Compiles a choice to its plan, and says what is wrong with it. `internal`: that the failure is pipec's own.
using CompileOnce = llvm::function_ref<Code(const Choice &, Made &, bool &internal)>;

/// The search weighs words on links that never queue and keeps the buffers that let them run at all; the passes may
/// have to queue, and where memory holds no more buffers transfers wait for one. So this compiles several and keeps the
/// best. Leaves in `choice` what it came from.
Code compileAuto(Choice &choice, mlir::MLIRContext &context, CompileOnce compileOnce, Made &made, bool &internal);

} // namespace pipec
