#include "tools/pipec/Auto.h"

#include "compiler/passes/FromSpec.h"
#include "compiler/schedule/Evaluate.h"
#include "tools/pipec/Compile.h"

#include "mlir/IR/Diagnostics.h"

#include <algorithm>
#include <tuple>

using namespace mlir;

namespace pipec {

namespace {

schedule::Time timeOf(const Made &made) { return pipec::timeOf(made.variant.certificate, made.objective); }

constexpr int64_t kMostForwards = int64_t(1) << 15; // of a plan that is compiled more often than once

int64_t forwardsOf(const spec::Spec &spec) { return int64_t(spec.stages) * spec.microbatches.value; }

/// Whether it is worth while to compile this more often than once, for a shorter time.
bool mayGain(const Choice &choice, const Made &made) {
  return timeOf(made) > boundOf(made.variant.certificate, made.objective) && forwardsOf(choice.spec) <= kMostForwards;
}

/// Under a limit, what is left for buffers is what the words do not hold: the search is asked for words that hold
/// less until they hardly wait for buffers, or, where none compiles, as on shared communicators that need more, until
/// one does; and for words that hold more, where buffers take most of the memory.
Code compileWithRoom(Choice &choice, MLIRContext &context, CompileOnce compileOnce, Made &made, bool &internal) {
  constexpr int kTries = 3;
  constexpr schedule::Time kWorth = 200; // waits of a 200th are not
  constexpr schedule::Time kFar = 10;    // a gap of a 10th is much
  bool found = false;
  schedule::Time words = 0; // the shortest, if they waited for no buffer
  Choice trial = choice;
  trial.buffers = 2;
  const auto attempt = [&] {
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    Made other;
    const Code code = compileOnce(trial, other, internal);
    if (code == Code::Ok) {
      const schedule::Time time = schedule::timeOf(other.problem, other.words, other.objective);
      words = found ? std::min(words, time) : time;
      if (!found || timeOf(other) < timeOf(made)) {
        made = std::move(other);
        choice = trial;
      }
      found = true;
    }
    return code;
  };
  for (int i = 0; choice.spec.memoryLimit.value != 0 && i != kTries; ++i) {
    const Code code = attempt();
    if (internal || (code != Code::Ok && code != Code::Check))
      break; // said below
    if (code == Code::Ok && (timeOf(made) - words <= words / kWorth || !mayGain(choice, made)))
      break;
    trial.buffers *= found ? 2 : 4;
  }
  const auto bound = [&] { return boundOf(made.variant.certificate, made.objective); };
  if (found && !internal && mayGain(choice, made) && timeOf(made) - bound() > bound() / kFar) {
    trial.buffers = 1;
    attempt();
  }
  internal = false;
  return found ? Code::Ok : compileOnce(choice, made, internal);
}

/// Schedules of the catalogue that could be better than what was found.
void compileFromCatalogue(Choice &choice, MLIRContext &context, CompileOnce compileOnce, Made &made) {
  constexpr int kTries = 4; // of the largest plans
  if (!mayGain(choice, made))
    return;
  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  const schedule::Objective by = made.objective;
  const spec::Spec searched = choice.spec;
  int64_t left = kTries * kMostForwards;
  for (const CatalogueTime &each : catalogueTimes(searched, context)) {
    left -= forwardsOf(searched);
    if (each.time >= timeOf(made) || left < 0)
      return;
    Choice named{searched, 1};
    named.spec.schedule = {each.name, searched.schedule.mark, {}};
    Made other;
    bool internal = false;
    if (compileOnce(named, other, internal) != Code::Ok || pipec::timeOf(other.variant.certificate, by) >= timeOf(made))
      continue;
    // What bounds every placement that the spec allows.
    plan::Certificate &own = other.variant.certificate;
    const plan::Certificate &all = made.variant.certificate;
    std::tie(own.lowerBound, own.bound) = std::pair(all.lowerBound, all.bound);
    std::tie(own.spanLowerBound, own.spanBound) = std::pair(all.spanLowerBound, all.spanBound);
    other.objective = by;
    made = std::move(other);
    choice = std::move(named);
  }
}

} // namespace

Code compileAuto(Choice &choice, MLIRContext &context, CompileOnce compileOnce, Made &made, bool &internal) {
  const Code code = compileWithRoom(choice, context, compileOnce, made, internal);
  if (code == Code::Ok)
    compileFromCatalogue(choice, context, compileOnce, made);
  return code;
}

} // namespace pipec
