// Runs a rank's programs, step after step: gives each step to the device, or, to one that does not walk its queues'
// streams itself, issues each instruction in issue order with its waits on its queue. It unrolls nothing, checks
// nothing (the loader did) and waits for no instruction but two: it stays within two steps of the slowest queue, so
// that what is issued and remembered is bounded, and it asks how the next step is to run only from a step's call point
// on (CallPoint.h).
//
// Between two steps it may go on with another program. Slots mean something else then, so all queues of this rank first
// wait for all of them to have completed the old one: a fence of one process, made of waits on the queues, and no
// synchronisation with anybody. An evaluation between two steps goes there and back the same way, with the rank at rest
// before and after: it has no part in what steps count as theirs.
#pragma once

#include "runtime/interpreter/Pilot.h"
#include "runtime/stage/Stage.h"
#include "runtime/transport/Transport.h"

#include <array>

namespace pipec::runtime {

class Interpreter {
public:
  /// All outlive the interpreter. `stage`: the pilot may put another in its place while the rank is at rest. `queues`:
  /// how many the device has; nothing was issued on them yet. `ends`: those on which a step has completed before the
  /// pilot is asked for the next.
  Interpreter(Device &device, Transport &transport, const std::unique_ptr<Stage> &stage, size_t queues,
              std::vector<QueueId> ends = {});

  /// Issues steps from `first` on, as the pilot says, on the calling thread, and returns when all have completed; false
  /// if the run failed.
  bool run(Pilot &pilot, int64_t first);

  /// Waits until all that is issued has completed; false if the run failed. Called by the pilot.
  bool comeToRest();

  /// Runs so many rounds of an evaluation before `step`, from rest to rest; false if the run failed. Called by the
  /// pilot.
  bool evaluate(const std::shared_ptr<const Executable> &evaluation, int64_t step, int64_t rounds);
  /// The program of the last step; null: there was none.
  const std::shared_ptr<const Executable> &program() const { return current; }

private:
  void begin(const std::shared_ptr<const Executable> &executable, int64_t step, int64_t evaluation);
  void issue(const Round &round, const CallPoint &call);
  void fence(const Executable &program);
  bool synchronize(const std::vector<int64_t> &counts);

  Device &device;
  Transport &transport;
  const std::unique_ptr<Stage> &stage;
  const std::vector<QueueId> ends;
  std::vector<int64_t> starts;   // of each queue: what it counts once all steps before the current one are done
  std::vector<int64_t> previous; // likewise, of the step before
  std::vector<int64_t> counts;   // of each queue: what it counts once all that is issued is done
  bool fenced = true;            // the step before ran another program, or none: its counts mean nothing now
  std::array<std::shared_ptr<const Round>, 2> issued; // not all complete: they keep their programs
  std::shared_ptr<const Executable> current;
  int64_t epoch = 0; // of the last step
};

} // namespace pipec::runtime
