// Steps, fences, and the issue of single instructions. Counts in a plan are per step; a queue's counter goes on, also
// from one program to the next, so a count of a step is added to where its queue stood when the step began.
#include "runtime/interpreter/Interpreter.h"

namespace pipec::runtime {

using plan::Kind;

Interpreter::Interpreter(Device &device, Transport &transport, const std::unique_ptr<Stage> &stage, size_t queues,
                         std::vector<QueueId> ends)
    : device(device), transport(transport), stage(stage), ends(std::move(ends)), starts(queues, 0),
      previous(queues, 0) {}

bool Interpreter::run(Pilot &pilot, int64_t first) {
  int64_t step = first;
  plan::Time rest = 0; // that what is issued takes at least
  for (; std::optional<Pilot::Turn> turn = pilot.turn(step, rest); ++step) {
    const Executable &program = *turn->program;
    if (turn->rest && (!comeToRest() || !pilot.atRest(step)))
      return false;
    if (step > first && turn->epoch != epoch)
      fence(program);
    epoch = turn->epoch;
    current = turn->program;
    begin(turn->program, step, 0);
    if (!synchronize(previous))
      return false;
    for (QueueId q : ends)
      if (!device.synchronize(q, starts[q]))
        return false;
    pilot.completed(ends.size() == starts.size() ? step + 1 : step);
    const CallPoint &call = program.call();
    if (!call.atOnce() && !device.synchronize(call.queue, previous[call.queue] + call.count))
      return false;
    rest = call.rest;
  }
  if (!comeToRest())
    return false;
  pilot.completed(step);
  return true;
}

/// Issues a step, or a round of an evaluation.
void Interpreter::begin(const std::shared_ptr<const Executable> &executable, int64_t step, int64_t evaluation) {
  const Executable &program = *executable;
  // What is issued and not yet complete refers to the program: the round keeps it.
  auto round = std::make_shared<const Round>(Round{executable, &program.whole(), &program.byQueue(), step, epoch,
                                                   starts, previous, fenced, program.variant(), evaluation});
  if (!device.run(round))
    issue(*round, program.call());
  issued[size_t(step + evaluation) % issued.size()] = round;
  previous = starts;
  for (size_t q = 0; q < starts.size(); ++q)
    starts[q] += program.byQueue()[q].executed;
  fenced = false;
}

bool Interpreter::evaluate(const std::shared_ptr<const Executable> &evaluation, int64_t step, int64_t rounds) {
  if (!comeToRest())
    return false;
  fenced = true;
  for (int64_t round = 1; round <= rounds; ++round) {
    begin(evaluation, step, round);
    if (!synchronize(previous))
      return false;
  }
  fenced = true; // the next step begins behind another program
  return comeToRest();
}

bool Interpreter::comeToRest() {
  if (!synchronize(starts))
    return false;
  device.rest();
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
  for (QueueId q = 0; q < program.byQueue().size(); ++q)
    for (QueueId of = 0; program.byQueue()[q].executed > 0 && of < starts.size(); ++of)
      if (of != q && starts[of] > 0)
        device.wait(q, of, starts[of]);
  fenced = true;
}

void Interpreter::issue(const Round &round, const CallPoint &call) {
  Label label{nullptr, 0, round.step, round.epoch, round.whole, round.evaluation};
  counts = round.starts;
  const int64_t called = call.atOnce() ? -1 : round.starts[call.queue] + call.count;
  for (Walk walk(*round.whole); !walk.done(); walk.next()) {
    const Stream::Item &item = walk.at();
    for (uint32_t w = item.firstWait; w != item.firstWait + item.waits; ++w) {
      const Stream::Wait &wait = round.whole->waits[w];
      if (int64_t count = round.due(wait, walk.trip()); count > 0)
        device.wait(item.queue, wait.queue, count);
    }
    label.operation = item.operation;
    label.microbatch = walk.microbatch();
    const Kind kind = item.operation->kind;
    if (plan::isOfStage(kind))
      stage->issue(item.queue, label, {walk.in(), walk.out()});
    else if (plan::isOfLayers(*item.operation))
      transport.exchange(item.queue, label, *stage);
    else if (plan::isCollective(kind))
      transport.allReduce(item.queue, label, *stage);
    else if (plan::sends(kind))
      transport.send(item.queue, label, walk.out(), walk.in());
    else
      transport.recv(item.queue, label, walk.out());
    const int64_t count = ++counts[item.queue];
    const bool ends = count == round.starts[item.queue] + (*round.queues)[item.queue].executed;
    device.issued(item.queue, item.awaited || ends || (item.queue == call.queue && count == called));
  }
}

} // namespace pipec::runtime
