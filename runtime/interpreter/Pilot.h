// Who tells an interpreter how far it may go and which program each step runs. It is asked once a step, shortly before
// the step is needed.
#pragma once

#include "runtime/interpreter/Executable.h"

#include <optional>

namespace pipec::runtime {

class Pilot {
public:
  virtual ~Pilot() = default;

  struct Turn {
    std::shared_ptr<const Executable> program;
    int64_t epoch = 0; // differs from that of the step before where another program begins
    bool rest = false; // atRest() before this step
  };
  /// How `step` is to run; blocks until that is known. None: the run ends before it, or has failed. `rest`: what has
  /// been issued takes so long yet, by the plan.
  virtual std::optional<Turn> turn(int64_t step, plan::Time rest) = 0;

  /// All steps before `step` have completed on this rank.
  virtual void completed(int64_t step) = 0;

  /// All steps before `step` have completed and nothing is issued: the time to save the stage, or to make it anew for
  /// another cut. False: the run has failed.
  virtual bool atRest(int64_t step) = 0;
};

} // namespace pipec::runtime
