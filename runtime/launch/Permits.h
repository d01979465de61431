// The permits of one process say how far it may run, and which program in which epoch (Conductor.h). The process asks
// the controller for a permit shortly before it needs one, so that permits come in time and decisions are made late.
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/device/Recorder.h"
#include "runtime/interpreter/Pilot.h"
#include "runtime/launch/waits/Doing.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace pipec::runtime {

/// The steps before `until` that no earlier permit covers run `program` under `epoch`.
struct Permit {
  int64_t until = 0;
  int64_t epoch = 0;
  std::shared_ptr<const Executable> program;
  bool last = false;                            // the run ends at `until`
  std::shared_ptr<const plan::Plan> recut = {}; // the steps need stages of this plan's cut; null: of the present cut
  std::shared_ptr<const plan::Variant> shares =
      {}; // the shards of a rank begin this variant together; null: they need not
};

/// Whether all processes save their states before `step`, in a run that begins at `first` and saves every `every` steps
/// (0: only at its end).
inline bool savesBefore(int64_t step, int64_t first, int64_t every) {
  return every > 0 && step > first && step % every == 0;
}

class Permits final : public Pilot {
public:
  struct Hooks {
    /// Called by turn() before it waits for the permit of `step`, which may be there already. False: the host wants no
    /// more steps.
    std::function<bool(int64_t step)> needed;
    std::function<void(int64_t step)> completed; // as Pilot::completed
    std::function<bool(int64_t step)> atRest;    // as Pilot::atRest: saves
    /// In place of atRest before a step of another cut: saves, and makes stages of that cut.
    std::function<bool(int64_t step, const std::shared_ptr<const plan::Plan> &plan)> recut = {};
    /// After atRest, before a step with which the shards of a rank begin another variant.
    std::function<bool(int64_t step, const std::shared_ptr<const plan::Variant> &variant)> share = {};
    /// Set for a process without instructions, which would otherwise ask for all steps at once. Such a process asks for
    /// no permits and takes those that others ask for. After the last step it waits in this hook until the others are
    /// done.
    std::function<void()> others = {};
  };
  /// `first`: the run's first step. `doing` records waits. Once `failure` is raised, all waits end. Both must outlive
  /// the permits. The process comes to rest before each step that is a multiple of `every` (0: none), and before the
  /// first step of another cut or, with shards, of another variant. The hooks are called on the interpreter's thread.
  Permits(int64_t first, int64_t every, Doing &doing, Failure &failure, Hooks hooks);

  /// From any thread.
  void grant(Permit permit);

  std::optional<Turn> turn(int64_t step, plan::Time rest) override;
  void completed(int64_t step) override { hooks.completed(step); }
  bool atRest(int64_t step) override {
    const auto plan = std::exchange(recut, nullptr);
    const auto variant = std::exchange(shares, nullptr);
    if (plan)
      return hooks.recut(step, plan);
    return (!saves(step) || hooks.atRest(step)) && (!variant || hooks.share(step, variant));
  }

  // After the run.

  /// How long each step waited for its permit after all work issued before had ended by the plan.
  const Lateness &waits() const { return waited; }
  /// Whether no permit covers `step` yet. From any thread.
  bool lacks(int64_t step) {
    std::lock_guard lock(mutex);
    return !known(step);
  }
  /// The step before which the run ends; INT64_MAX until the last permit has come.
  int64_t end() const { return ended(); }

private:
  bool known(int64_t step) const {
    return failure.raised() || ended() <= step || (!granted.empty() && step < granted.back().until);
  }
  bool saves(int64_t step) const { return savesBefore(step, first, every); }
  int64_t ended() const { return !granted.empty() && granted.back().last ? granted.back().until : INT64_MAX; }

  const int64_t first;
  const int64_t every;
  Doing &doing;
  Failure &failure;
  const Hooks hooks;
  std::mutex mutex; // guards `granted`
  std::condition_variable changed;
  std::deque<Permit> granted; // without permits of steps that have all begun
  Lateness waited;
  // What the step that turn() returned last needs before it begins; atRest() takes it.
  std::shared_ptr<const plan::Plan> recut;
  std::shared_ptr<const plan::Variant> shares;
};

} // namespace pipec::runtime
