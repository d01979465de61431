// Runs a rank's program: walks it in issue order, step after step, and issues each instruction with its waits on its
// queue. It unrolls nothing, checks nothing (the loader did) and never waits for an instruction, except that it stays
// within two steps of the slowest queue, so that what is issued and remembered is bounded.
#pragma once

#include "runtime/interpreter/Slots.h"
#include "runtime/stage/Stage.h"
#include "runtime/transport/Transport.h"

namespace pipec::runtime {

class Interpreter {
public:
  /// All outlive the interpreter. Transfers carry no more than `payloadLimit`.
  Interpreter(const plan::Program &program, Device &device, Transport &transport, Stage &stage,
              plan::Bytes payloadLimit);

  /// Allocates the transfer slots; before run().
  Status prepare() { return slots.allocate(device); }

  /// Issues `steps` steps on the calling thread and returns when all have completed; false if the run failed.
  bool run(int64_t steps);

private:
  void issue(const plan::Step &step, int64_t number);
  bool synchronize(int64_t steps);

  const plan::Program &program;
  Device &device;
  Transport &transport;
  Stage &stage;
  Slots slots;
  std::vector<int64_t> executed; // of each queue, in a step
};

} // namespace pipec::runtime
