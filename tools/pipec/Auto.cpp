#include "tools/pipec/Auto.h"

#include "compiler/passes/FromSpec.h"
#include "compiler/schedule/Evaluate.h"
#include "runtime/plan/Limits.h"
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

/// Compiles choice after choice, and keeps the best.
struct Attempts {
  Choice &choice; // of the best
  Made &made;
  MLIRContext &context;
  CompileOnce compileOnce;
  bool internal = false;
  bool found = false;
  schedule::Time words = 0; // the shortest, if they waited for no buffer

  Code attempt(const Choice &trial) {
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    Made other;
    const Code code = compileOnce(trial, other, internal);
    if (code != Code::Ok)
      return code;
    const schedule::Time time = schedule::timeOf(other.problem, other.words, other.objective);
    words = found ? std::min(words, time) : time;
    if (!found || timeOf(other) < timeOf(made)) {
      made = std::move(other);
      choice = trial;
    }
    found = true;
    return code;
  }

  bool hasGap(schedule::Time part = limits::kTime) const {
    const schedule::Time bound = boundOf(made.variant.certificate, made.objective);
    return found && !internal && mayGain(choice, made) && timeOf(made) - bound > bound / part;
  }
};

/// What a limit leaves beyond the least that does, and less and less of it: quarters of powers of two, so that a higher
/// limit tries what a lower one does.
std::vector<schedule::Bytes> steps(schedule::Bytes beyond, size_t most) {
  std::vector<schedule::Bytes> result{beyond};
  for (int power = 60; power >= 0; --power)
    for (const schedule::Bytes sixteenths : {27, 23, 19, 16})
      if (const auto step = schedule::Bytes((__int128(sixteenths) << power) / 16);
          step < result.back() && result.size() < most)
        result.push_back(step);
  return result;
}

/// Words in the limit with one buffer an end, and, of small problems, in less and less memory: where buffers take most
/// of it, what fills it with words runs worse than what leaves some of it free. How much does is told with little work.
void compileWithSpare(Attempts &attempts) {
  constexpr schedule::Time kFar = 10;   // a gap of a 10th is much, and
  constexpr schedule::Time kSmall = 50; // of small problems, one of a 50th
  constexpr int64_t kMostSteps = 12, kForwardsOfSteps = 1 << 11;
  constexpr int64_t kLittle = 20; // hundredths of the search's work
  const spec::Spec spec = attempts.choice.spec;
  const int64_t most = std::min(kMostSteps, kForwardsOfSteps / forwardsOf(spec));
  if (spec.memoryLimit.value == 0 || !attempts.hasGap(most > 1 ? kSmall : kFar))
    return;
  const schedule::Bytes beyond = spec.memoryLimit.value - leastLimitOf(spec, attempts.context);
  Choice trial{spec, {1}};
  attempts.attempt(trial);
  if (beyond <= 0 || most <= 1)
    return;
  trial.room.effort = kLittle;
  for (const schedule::Bytes step : steps(beyond, size_t(most))) {
    trial.room.spare = beyond - step;
    if (trial.room.spare != 0)
      attempts.attempt(trial);
  }
  if (attempts.choice.room.effort == kLittle) {
    trial = attempts.choice;
    trial.room.effort = 100;
    attempts.attempt(trial);
  }
}

/// Words that a search for the other objective finds: in queues and with buffers they may be the shorter ones.
void compileByOther(Attempts &attempts) {
  constexpr int64_t kMostForwards = 1 << 9, kEffort = 50;
  if (!attempts.hasGap() || forwardsOf(attempts.choice.spec) > kMostForwards)
    return;
  Choice trial = attempts.choice;
  trial.room.byOther = true;
  trial.room.effort = kEffort;
  attempts.attempt(trial);
}

/// Under a limit, what is left for buffers is what the words do not hold: the search is asked for words that hold
/// less until they hardly wait for buffers, or, where none compiles, as on shared communicators that need more, until
/// one does.
Code compileWithRoom(Choice &choice, MLIRContext &context, CompileOnce compileOnce, Made &made, bool &internal) {
  constexpr int kTries = 3;
  constexpr schedule::Time kWorth = 200; // waits of a 200th are not
  Attempts attempts{choice, made, context, compileOnce};
  Choice trial{choice.spec, {2}};
  for (int i = 0; i != (choice.spec.memoryLimit.value == 0 ? 1 : kTries); ++i) {
    const Code code = attempts.attempt(trial);
    if (attempts.internal || (code != Code::Ok && code != Code::Check))
      break; // said below
    if (code == Code::Ok && (timeOf(made) - attempts.words <= attempts.words / kWorth || !mayGain(choice, made)))
      break;
    trial.room.buffers *= attempts.found ? 2 : 4;
  }
  compileWithSpare(attempts);
  compileByOther(attempts);
  return attempts.found ? Code::Ok : compileOnce(choice, made, internal);
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
    Choice named{searched, {1}};
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
