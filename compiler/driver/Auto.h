// What `schedule: auto` compiles: words that the search finds when it leaves more or less room for transfer buffers,
// and those schedules of the catalogue that could be better. The best of these plans is the answer.
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

/// The programs of a variant, which are not text yet, and the module that they belong to.
struct Programs {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Lowering lowering;
};

/// What a variant's spec was compiled to.
struct Made {
  std::string text;                   // the IR, where compiling ends there
  std::shared_ptr<Programs> programs; // where it ends with them
  plan::Variant variant;
  simulate::Result walk;
  schedule::Problem problem;
  std::vector<schedule::Problem> alternatives; // as in Imported
  schedule::Words words;
  bool placesTransfers = false; // an order file has said where transfers stand
  std::map<std::string, int64_t> parameters;
  schedule::Objective objective = schedule::Objective::Span;
};

/// What to compile: a spec whose words are searched for, in the given room; or one with a schedule of the catalogue.
struct Choice {
  spec::Spec spec;
  SearchRoom room;
  std::optional<spec::Spec>
      searched; // the spec with `auto` that a catalogue's schedule answers: objective and bounds are of that one
};

/// Compiles a choice to its plan, and reports what is wrong with it. Sets `internal` where the failure is pipec's own.
using CompileOnce = llvm::function_ref<Code(const Choice &, Made &, bool &internal)>;

/// Compiles several choices and keeps the best, since the search cannot know which that is: it judges words on links
/// that never queue and with only as many buffers as let them run at all. In the plan transfers may queue, and wait for
/// a buffer where memory holds no more of them. Leaves in `choice` what the result was made from.
/// Asked to stop, it goes on with the best so far.
Code compileAuto(Choice &choice, mlir::MLIRContext &context, const std::stop_token &stop, CompileOnce compileOnce,
                 Made &made, bool &internal);

} // namespace pipec
