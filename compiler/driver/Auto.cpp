#include "compiler/driver/Auto.h"

#include "compiler/driver/BestPlan.h"
#include "compiler/driver/FromSpec.h"
#include "compiler/schedule/evaluate/Evaluate.h"
#include "compiler/schedule/search/Search.h"
#include "compiler/shards/ShardedRanks.h"
#include "runtime/plan/Limits.h"

#include "mlir/IR/Diagnostics.h"

#include <algorithm>

using namespace mlir;

namespace pipec {

namespace {

constexpr int64_t kMostForwards = int64_t(1) << 15;  // of a plan that is compiled more often than once
constexpr int64_t kSmallForwards = int64_t(1) << 9;  // with more searches than one
constexpr int64_t kLittleForwards = int64_t(1) << 8; // and for either objective

int64_t forwardsOf(const spec::Spec &spec) { return int64_t(spec.stages) * spec.microbatches.value; }

/// Compiles choice after choice, and keeps the best.
struct Attempts {
  Choice &choice; // of the best
  Made &made;
  MLIRContext &context;
  CompileOnce compileOnce;
  const std::stop_token stop;
  const spec::Spec searched = choice.spec;
  const int64_t forwards = forwardsOf(searched);
  bool internal = false;
  bool found = false;
  schedule::Time words = 0; // the shortest, if they waited for no buffer

  Code attempt(const Choice &trial) {
    if (found && stop.stop_requested())
      return Code::Ok; // with the best so far
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

  /// Of more than a part in so many.
  bool hasGap(schedule::Time part = limits::kTime) const {
    const schedule::Time bound = boundOf(made.variant.certificate, made.objective).picoseconds();
    return found && !internal && timeOf(made) - bound > bound / part;
  }
  /// Of a search after the first, in hundredths.
  int64_t effortOfMore() const { return forwards > kSmallForwards ? 50 : 100; }
  bool waits(schedule::Time part) const { return timeOf(made) - words > words / part; }
};

/// Amounts of memory to search in: what a limit leaves beyond the least that does, then less and less. They are powers
/// of two, and where many are tried also values between, so that under a higher limit all is tried that is under a
/// lower one.
std::vector<schedule::Bytes> steps(schedule::Bytes beyond, size_t most) {
  constexpr size_t kMany = 8;
  const std::vector<schedule::Bytes> parts =
      most < kMany ? std::vector<schedule::Bytes>{16} : std::vector<schedule::Bytes>{27, 23, 19, 16};
  std::vector<schedule::Bytes> result{beyond};
  for (int power = 60; power >= 0; --power)
    for (const schedule::Bytes sixteenths : parts)
      if (const auto step = schedule::Bytes((__int128(sixteenths) << power) / 16);
          step < result.back() && result.size() < most)
        result.push_back(step);
  return result;
}

/// Searches for words within the limit with one buffer at each end, and for small problems in less and less memory.
/// Where buffers take most of the memory, words that fill it run worse than words that leave some of it free. How much
/// is best to leave, little work per search tells.
void compileWithSpare(Attempts &attempts) {
  constexpr schedule::Time kFar = 10;   // a gap of a 10th is much, and
  constexpr schedule::Time kSmall = 50; // of small problems, one of a 50th
  constexpr int64_t kMostSteps = 12;
  constexpr int64_t kLittle = 20; // hundredths of the search's work
  const spec::Spec &spec = attempts.searched;
  const bool needsAny = !attempts.found && attempts.forwards <= kSmallForwards;
  const int64_t most = needsAny ? kMostSteps : std::min(kMostSteps, 2 * kSmallForwards / attempts.forwards);
  if (spec.memoryLimit.value == 0 || attempts.forwards > kMostForwards)
    return;
  if (attempts.found ? !attempts.hasGap(most > 1 ? kSmall : kFar) : most <= 1)
    return;
  const schedule::Bytes beyond = spec.memoryLimit.value - leastLimitOf(spec, attempts.context);
  Choice trial{spec, {1}, {}};
  trial.room.effort = attempts.effortOfMore();
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

/// Searches for the other objective: with queues and buffers these words may be the shorter ones.
void compileByOther(Attempts &attempts) {
  if (attempts.forwards > kLittleForwards || !attempts.hasGap())
    return;
  Choice trial = attempts.choice;
  trial.room.byOther = true;
  attempts.attempt(trial);
}

/// Searches without the limit: if those words fit, the limit is no reason for others.
void compileFreely(Attempts &attempts) {
  const schedule::Bytes limit = attempts.searched.memoryLimit.value;
  if (limit == 0 || attempts.internal || attempts.forwards > kSmallForwards)
    return;
  if (!attempts.found && limit < leastLimitOf(attempts.searched, attempts.context))
    return;
  if (attempts.found) {
    if (!attempts.hasGap())
      return;
    // Where the limit says more than the work does, they would not fit.
    schedule::Problem free = attempts.made.problem;
    free.memoryLimit = 0;
    if (schedule::boundOf(free, attempts.made.objective) <
        schedule::boundOf(attempts.made.problem, attempts.made.objective))
      return;
  }
  Choice trial{attempts.searched, {}, {}};
  trial.room.withoutLimit = true;
  attempts.attempt(trial);
}

/// Under a limit, buffers get what the words do not hold. So the search is asked for words that hold less and less,
/// until they hardly wait for buffers; or, where none compiles (shared communicators need more buffers), until one
/// does.
Code compileWithRoom(Attempts &attempts) {
  constexpr int kTries = 3;
  constexpr schedule::Time kWorth = 200; // waits of a 200th are not
  Choice trial{attempts.searched, {2}, {}};
  Code code = Code::Ok;
  for (int i = 0; i != (attempts.searched.memoryLimit.value == 0 ? 1 : kTries); ++i) {
    code = attempts.attempt(trial);
    if (attempts.internal || (code != Code::Ok && code != Code::Check))
      break; // said in the end
    if (code == Code::Ok && (!attempts.waits(kWorth) || !attempts.hasGap() || attempts.forwards > kMostForwards))
      break;
    trial.room.buffers *= attempts.found ? 2 : 4;
    trial.room.effort = attempts.effortOfMore();
  }
  return code;
}

/// Compiles schedules of the catalogue that could be better than what was found, or that fit where nothing was found.
/// For large specs only where the words found wait in queues: the search knows no queues. Where ranks have shards, each
/// shard may begin and end a pass at its own time, so a plan may take less than its order promises.
void compileFromCatalogue(Attempts &attempts) {
  constexpr int64_t kTries = 8, kFewTries = 3; // of the largest plans with several, and of larger ones
  constexpr schedule::Time kQueues = 50;
  if (attempts.internal || (attempts.found && !attempts.hasGap()))
    return;
  if (attempts.found && attempts.forwards > kMostForwards && !attempts.waits(kQueues))
    return;
  int64_t left = std::max(kTries * kMostForwards / attempts.forwards, kFewTries);
  for (const CatalogueTime &each : catalogueTimes(attempts.searched, attempts.context, attempts.stop)) {
    const bool promises = hasShards(attempts.searched) || !attempts.found || each.time < timeOf(attempts.made);
    if (!promises || left-- == 0)
      return;
    Choice named{attempts.searched, {}, {}};
    named.room.buffers = 1;
    named.searched = attempts.searched;
    named.spec.schedule = {each.name, attempts.searched.schedule.mark, {}};
    attempts.attempt(named);
  }
}

} // namespace

Code compileAuto(Choice &choice, MLIRContext &context, const std::stop_token &stop, CompileOnce compileOnce, Made &made,
                 bool &internal) {
  Attempts attempts{choice, made, context, compileOnce, stop};
  const Code code = compileWithRoom(attempts);
  if (!attempts.internal && (code == Code::Ok || code == Code::Check)) {
    for (const auto compileMore : {compileWithSpare, compileByOther, compileFreely, compileFromCatalogue})
      if (!stop.stop_requested())
        compileMore(attempts);
  }
  return attempts.found ? Code::Ok : compileOnce(choice, made, internal);
}

} // namespace pipec
