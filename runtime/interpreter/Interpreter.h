// The interpreter runs a rank's programs, step after step. It gives each step to the device or, if the device does not
// walk the streams of its queues itself, issues each instruction in issue order with its waits. It unrolls nothing and
// checks nothing (the loader did). It waits in two cases only: it stays within two steps of the slowest queue, so that
// what is issued and kept is bounded, and it asks how the next step is to run only from the step's call point on
// (CallPoint.h).
//
// Between two steps the interpreter may change to another program. Slots then have another meaning, so all queues of
// this rank first wait until all of them have completed the old program: a fence of one process, made of waits on the
// queues, without synchronisation with other processes. An evaluation between two steps changes program and back in the
// same way, with the rank at rest before and after. Its work does not count as part of a step.
#pragma once

#include "runtime/interpreter/Pilot.h"
#include "runtime/stage/Stage.h"
#include "runtime/transport/Transport.h"

#include <array>

namespace pipec::runtime {

class Interpreter {
public:
  /// All arguments must outlive the interpreter. `stage`: the pilot may replace it while the rank is at rest. `queues`:
  /// the number of queues of the device; nothing was issued on them yet. `ends`: the queues on which a step must have
  /// completed before the pilot is asked for the next.
  Interpreter(Device &device, Transport &transport, const std::unique_ptr<Stage> &stage, size_t queues,
              std::vector<QueueId> ends = {});

  /// Issues steps from `first` on, as the pilot says, on the calling thread, and returns when all have completed; false
  /// if the run failed.
  bool run(Pilot &pilot, int64_t first);

  /// Waits until everything issued has completed; false if the run failed. Called by the pilot.
  bool comeToRest();

  /// Runs `rounds` rounds of an evaluation before `step`, from rest to rest; false if the run failed. Called by the
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
  std::vector<int64_t> starts;   // by queue: its count when all steps before the current one are done
  std::vector<int64_t> previous; // by queue: the same for the step before
  std::vector<int64_t> counts;   // by queue: its count when everything issued is done
  bool fenced = true;            // the step before ran another program, or none: its counts mean nothing now
  std::array<std::shared_ptr<const Round>, 2> issued; // steps that may not be complete; they keep their programs
  std::shared_ptr<const Executable> current;
  int64_t epoch = 0; // of the last step
};

} // namespace pipec::runtime
