// Issue: waits, then the instruction. Counts in a plan are per step; a queue's counter goes on, so step k's count n is
// k * (executed in a step) + n.
#include "runtime/interpreter/Interpreter.h"

namespace pipec::runtime {

using plan::Kind;

Interpreter::Interpreter(const plan::Program &program, Device &device, Transport &transport, Stage &stage,
                         plan::Bytes payloadLimit)
    : program(program), device(device), transport(transport), stage(stage), slots(program, payloadLimit),
      executed(executedByQueue(program)) {}

bool Interpreter::run(int64_t steps) {
  for (int64_t step = 0; step < steps; ++step) {
    if (step >= 2 && !synchronize(step - 1))
      return false;
    slots.beginStep();
    for (plan::Cursor cursor(program); !cursor.done(); cursor.next())
      issue(cursor.at(), step);
  }
  return synchronize(steps);
}

/// Until every queue has completed `steps` steps.
bool Interpreter::synchronize(int64_t steps) {
  for (QueueId q = 0; q < executed.size(); ++q)
    if (!device.synchronize(q, steps * executed[q]))
      return false;
  return true;
}

void Interpreter::issue(const plan::Step &step, int64_t number) {
  const plan::Instruction &instruction = *step.instruction;
  for (uint32_t w = instruction.firstWait; w < instruction.firstWait + instruction.waits; ++w) {
    const plan::Wait &wait = program.waits[w];
    int64_t count = wait.base + wait.stride * step.trip;
    int64_t of = number - (wait.previousStep ? 1 : 0);
    if (of >= 0 && count > 0)
      device.wait(instruction.queue, wait.queue, of * executed[wait.queue] + count);
  }
  Label label{step.operation, step.microbatch(), number, 0};
  switch (step.operation->kind) {
  case Kind::Forward:
    return stage.forward(instruction.queue, label, slots.ofCompute(step));
  case Kind::BackwardInput:
    return stage.backwardInput(instruction.queue, label, slots.ofCompute(step));
  case Kind::BackwardWeight:
    return stage.backwardWeight(instruction.queue, label);
  case Kind::Backward:
    return stage.backward(instruction.queue, label, slots.ofCompute(step));
  case Kind::Send:
    return transport.send(instruction.queue, label, slots.ofTransfer(step));
  case Kind::Recv:
    return transport.recv(instruction.queue, label, slots.ofTransfer(step));
  case Kind::Optimizer:
    return stage.optimizerStep(instruction.queue, label);
  default:
    return; // refused by the loader (P6)
  }
}

} // namespace pipec::runtime
