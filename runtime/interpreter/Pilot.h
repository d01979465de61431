// A pilot tells an interpreter how far it may go and which program each step runs. The interpreter asks once per step,
// shortly before the step is needed.
#pragma once

#include "runtime/interpreter/Executable.h"

#include <optional>

namespace pipec::runtime {

class Pilot {
public:
  virtual ~Pilot() = default;

  struct Turn {
    std::shared_ptr<const Executable> program;
    int64_t epoch = 0; // changes when another program begins
    bool rest = false; // whether atRest() is called before this step
  };
  /// How `step` is to run; blocks until that is known. Returns nothing if the run ends before `step` or has failed.
  /// `rest`: how long the work issued so far will still take, by the plan.
  virtual std::optional<Turn> turn(int64_t step, plan::Time rest) = 0;

  /// All steps before `step` have completed on this rank.
  virtual void completed(int64_t step) = 0;

  /// All steps before `step` have completed and nothing is issued: saves the stage, or makes it for another cut. False:
  /// the run has failed.
  virtual bool atRest(int64_t step) = 0;
};

} // namespace pipec::runtime
