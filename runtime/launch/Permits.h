// The permits of one process: how far it may run, and under which epoch which program. They come from the controller a
// few steps ahead, so the interpreter finds its next step permitted and does not wait.
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/device/Recorder.h"
#include "runtime/interpreter/Pilot.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace pipec::runtime {

/// The steps before `until` that no earlier permit has covered run `program` under `epoch`.
struct Permit {
  int64_t until = 0;
  int64_t epoch = 0;
  std::shared_ptr<const Executable> program;
  bool last = false; // the run ends at `until`
};

class Permits final : public Pilot {
public:
  struct Hooks {
    std::function<void(int64_t step)> completed; // all steps before it, on this rank
    std::function<bool(int64_t step)> atRest;
  };
  /// `first`: the run's first step. A wait longer than `deadline` (0: none) raises `failure`, which ends all waits.
  /// Every `every` steps the process comes to rest (0: never). The hooks are called on the interpreter's thread.
  Permits(int32_t rank, int64_t first, int64_t every, plan::Time deadline, Failure &failure, Hooks hooks);

  /// From any thread.
  void grant(Permit permit);

  std::optional<Turn> turn(int64_t step) override;
  void completed(int64_t step) override { hooks.completed(step); }
  bool atRest(int64_t step) override { return hooks.atRest(step); }

  // After the run.

  /// How long each step waited for its permit.
  const Lateness &waits() const { return waited; }
  /// The step before which the run ended.
  int64_t end() const { return ended(); }

private:
  bool known(int64_t step) const {
    return failure.raised() || ended() <= step || (!granted.empty() && step < granted.back().until);
  }
  int64_t ended() const { return !granted.empty() && granted.back().last ? granted.back().until : INT64_MAX; }

  const int32_t rank;
  const int64_t first;
  const int64_t every;
  const plan::Time deadline;
  Failure &failure;
  const Hooks hooks;
  std::mutex mutex; // over `granted`
  std::condition_variable changed;
  std::deque<Permit> granted; // the first one's steps are not all begun
  Lateness waited;
};

} // namespace pipec::runtime
