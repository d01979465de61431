// Compiles `schedule: auto`: words that the search finds with more or less room for transfer buffers, and catalogue
// schedules that could be better. The best of the resulting plans is the answer.
#pragma once

#include "compiler/driver/FromSpec.h"
#include "compiler/passes/Passes.h"
#include "compiler/schedule/model/Objective.h"
#include "compiler/schedule/model/Problem.h"
#include "compiler/spec/Spec.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Status.h"
#include "runtime/simulate/Simulate.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace pipec {

/// The programs of a variant, not yet converted to text, and their module.
struct Programs {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Lowering lowering;
};

/// The result of compiling a variant's spec.
struct Made {
  std::string text;                   // the IR, if compiling ends with the IR
  std::shared_ptr<Programs> programs; // set if compiling ends with programs
  plan::Variant variant;
  simulate::Result walk;
  schedule::Problem problem;
  std::vector<schedule::Problem> alternatives; // as in Imported
  schedule::Words words;
  bool placesTransfers = false; // an order file determines where transfers go
  std::map<std::string, int64_t> parameters;
  schedule::Objective objective = schedule::Objective::Span;
};

/// What to compile: a spec to search words for, in the given room, or a spec with a catalogue schedule.
struct Choice {
  spec::Spec spec;
  SearchRoom room;
  std::optional<spec::Spec>
      searched; // the spec with `auto`, if a catalogue schedule answers it; objective and bounds come from this spec
};

/// Compiles a choice to its plan, and reports errors. Sets `internal` if the failure is pipec's own.
using CompileOnce = llvm::function_ref<Code(const Choice &, Made &, bool &internal)>;

/// Compiles several choices and keeps the best plan. The search cannot know which choice is best: it judges words on
/// links that never queue and with only the buffers that prevent deadlock. In the plan, transfers may queue, and may
/// wait for a buffer if memory holds no more buffers. Sets `choice` to what the result was made from. On a request to
/// stop, continues with the best so far.
Code compileAuto(Choice &choice, mlir::MLIRContext &context, const std::stop_token &stop, CompileOnce compileOnce,
                 Made &made, bool &internal);

} // namespace pipec
