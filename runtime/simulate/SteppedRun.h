// A run in virtual time that goes on step by step, so that somebody may choose each step's variant when it comes.
#pragma once

#include "runtime/simulate/Simulate.h"

#include <memory>
#include <vector>

namespace pipec::simulate {

class Walk;

class SteppedRun {
public:
  /// Of `options` the scenario, `idealLinks`, `starts` and `observe` count; the step of an event counts those before a
  /// swap too.
  explicit SteppedRun(const Options &options);
  ~SteppedRun();
  SteppedRun(SteppedRun &&) noexcept;
  SteppedRun &operator=(SteppedRun &&) noexcept;

  /// One more step. With the variant of the step before there is no barrier: each queue goes on. With another each rank
  /// completes the old program on all its queues, of all its shards, before it begins the new one, and waits for no
  /// other rank. Variants are of the same ranks, and outlive the steps that they are followed by.
  Status step(const plan::Variant &variant);

  int64_t steps() const;
  /// By process, the last end of the last step on a device queue.
  const std::vector<plan::Time> &ends() const;
  /// By process, when another variant could begin.
  const std::vector<plan::Time> &fence() const;
  /// Of the last step, as in Steps.h.
  plan::Time stepTime() const;
  /// When the last process has ended the last step.
  plan::Time end() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace pipec::simulate
