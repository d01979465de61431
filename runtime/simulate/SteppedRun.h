// A SteppedRun simulates a run step by step, so that the caller can choose each step's variant when it comes.
#pragma once

#include "runtime/simulate/Simulate.h"

#include <memory>
#include <vector>

namespace pipec::simulate {

class Walk;

class SteppedRun {
public:
  /// Only the options `scenario`, `idealLinks`, `starts` and `observe` are used. Event::step counts steps before a swap
  /// too.
  explicit SteppedRun(const Options &options);
  ~SteppedRun();
  SteppedRun(SteppedRun &&) noexcept;
  SteppedRun &operator=(SteppedRun &&) noexcept;

  /// Simulates one more step. With the variant of the step before there is no barrier: each queue goes on. With another
  /// variant each rank completes the old program on all queues of all its shards before it begins the new one, and
  /// waits for no other rank. All variants have the same ranks. A variant must outlive the step that follows its last
  /// one.
  Status step(const plan::Variant &variant);

  int64_t steps() const;
  /// By process, the last end of the last step on a device queue.
  const std::vector<plan::Time> &ends() const;
  /// By process, when another variant could begin.
  const std::vector<plan::Time> &fence() const;
  /// Duration of the last step, as in Steps.h.
  plan::Time stepTime() const;
  /// When the last process has ended the last step.
  plan::Time end() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace pipec::simulate
