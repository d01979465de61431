// Issue: waits, then the instruction. Counts in a plan are per step; a queue's counter goes on, also from one program
// to the next, so a count of a step is added to where its queue stood when the step began.
#include "runtime/interpreter/Interpreter.h"

#include <utility>

namespace pipec::runtime {

using plan::Kind;

Interpreter::Interpreter(Device &device, Transport &transport, Stage &stage, size_t queues)
    : device(device), transport(transport), stage(stage), starts(queues, 0), previous(queues, 0) {}

bool Interpreter::run(Pilot &pilot, int64_t first) {
  std::shared_ptr<const Executable> running, before; // what is issued and not yet complete refers to them
  int64_t epoch = 0;
  int64_t step = first;
  for (; std::optional<Pilot::Turn> turn = pilot.turn(step); ++step) {
    if (turn->rest && (!synchronize(starts) || !pilot.atRest(step)))
      return false;
    if (running && turn->epoch != epoch)
      fence(*turn->program);
    before = std::exchange(running, turn->program);
    epoch = turn->epoch;
    issue(*running, step, epoch);
    previous = starts;
    for (size_t q = 0; q < starts.size(); ++q)
      starts[q] += running->executed()[q];
    fenced = false;
    if (!synchronize(previous))
      return false;
    pilot.completed(step);
  }
  if (!synchronize(starts))
    return false;
  pilot.completed(step);
  return true;
}

/// Until every queue has counted as many.
bool Interpreter::synchronize(const std::vector<int64_t> &counts) {
  for (QueueId q = 0; q < counts.size(); ++q)
    if (!device.synchronize(q, counts[q]))
      return false;
  return true;
}

/// Every queue that the program uses waits for every queue.
void Interpreter::fence(const Executable &program) {
  for (QueueId q = 0; q < program.executed().size(); ++q)
    for (QueueId of = 0; program.executed()[q] > 0 && of < starts.size(); ++of)
      if (of != q && starts[of] > 0)
        device.wait(q, of, starts[of]);
  fenced = true;
}

void Interpreter::issue(const Executable &program, int64_t step, int64_t epoch) {
  const Executable::Wait *waits = program.waits().data();
  Label label{nullptr, 0, step, epoch};
  for (const plan::Segment &segment : program.segments()) {
    const Executable::Item *begin = program.items().data() + segment.first, *end = begin + segment.count;
    for (int64_t trip = 0; trip < int64_t(segment.trips); ++trip)
      for (const Executable::Item *item = begin; item != end; ++item) {
        for (uint32_t w = item->firstWait; w != item->firstWait + item->waits; ++w) {
          const Executable::Wait &wait = waits[w];
          int64_t count = wait.base + wait.stride * trip;
          if (count > 0 && !(wait.previousStep && fenced))
            device.wait(item->queue, wait.queue, (wait.previousStep ? previous : starts)[wait.queue] + count);
        }
        label.operation = item->operation;
        label.microbatch = item->microbatch + item->microbatchStride * trip;
        Slot in = item->in ? item->in[label.microbatch] : Slot{};
        Slot out = item->out ? item->out[label.microbatch] : Slot{};
        switch (item->operation->kind) {
        case Kind::Forward:
          stage.forward(item->queue, label, {in, out});
          break;
        case Kind::BackwardInput:
          stage.backwardInput(item->queue, label, {in, out});
          break;
        case Kind::BackwardWeight:
          stage.backwardWeight(item->queue, label);
          break;
        case Kind::Backward:
          stage.backward(item->queue, label, {in, out});
          break;
        case Kind::Send:
          transport.send(item->queue, label, out);
          break;
        case Kind::Recv:
          transport.recv(item->queue, label, out);
          break;
        case Kind::Optimizer:
          stage.optimizerStep(item->queue, label);
          break;
        case Kind::AllReduce:
          transport.allReduce(item->queue, label, stage);
          break;
        default:
          break; // refused by the loader (P6)
        }
      }
  }
}

} // namespace pipec::runtime
