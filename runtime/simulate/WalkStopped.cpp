// Finds why a walk does not go on.
#include "runtime/simulate/Walk.h"

#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Text.h"

#include <algorithm>

namespace pipec::simulate {

using plan::Instruction;
using plan::Kind;

/// The queue of the n-th end of a process's step, which must exist. If that end is not at the head of its queue yet, an
/// earlier end is.
uint32_t Walk::queueOfEnd(size_t place, int64_t n) const {
  const plan::Program &program = programOf(place);
  for (plan::Cursor cursor(program); !cursor.done(); cursor.next())
    if (const plan::Step step = cursor.at(); plan::isCommunication(step.operation->kind) && n-- == 0)
      return firstQueue[place] + step.instruction->queue;
  return kNone;
}

/// Starting at a queue that stands still, follows what each head waits for until a queue comes up again.
Status Walk::stopped() const {
  if (lost.any) {
    int64_t steps = target;
    for (const QueueState &queue : queues)
      if (queue.perStep != 0)
        steps = std::min(steps, queue.step);
    return Status::check("the link between ranks " + std::to_string(lost.from) + " and " + std::to_string(lost.to) +
                         " is cut at " + plan::timeText(options.scenario->cutAt(lost.from, lost.to)) + ", in step " +
                         std::to_string(steps));
  }
  auto text = [&](size_t q) {
    const QueueState &queue = queues[q];
    const Instruction &instruction = instructionOf(queue);
    return plan::describe(plan::Place{.rank = rankOf(queue), .shard = queue.place % shards, .shards = shards},
                          *workOf(head(queue)).operation,
                          instruction.microbatch + instruction.microbatchStride * queue.trip);
  };
  auto blocker = [&](size_t q) -> uint32_t {
    const QueueState &queue = queues[q];
    const Entry &entry = head(queue);
    const Work &work = workOf(entry);
    if (queue.posted && plan::isTransfer(work.kind))
      return plan::sends(work.kind) ? links[work.link].recv.queue : links[work.link].send.queue;
    if (queue.posted && plan::isCollective(work.kind))
      for (uint32_t other : collectives[work.link].queues)
        if (!stands(other, work.link))
          return other;
    if (queue.posted && work.link == kSums)
      for (int32_t shard = 0; shard != shards; ++shard)
        if (const uint32_t other = firstQueue[size_t(rankOf(queue) * shards + shard)] + queue.index;
            !queues[other].posted || workOf(head(queues[other])).link != kSums)
          return other;
    if (const Launched *own = inOrder ? &launched[size_t(queue.place)] : nullptr;
        own && std::find(own->waiting.begin(), own->waiting.end(), uint32_t(q)) != own->waiting.end())
      return queueOfEnd(size_t(queue.place), own->next);
    for (uint32_t w = entry.firstWait; w != entry.firstWait + entry.waits; ++w) {
      int64_t count = waits[w].base + waits[w].stride * queue.trip;
      int64_t step = queue.step - (waits[w].previousStep ? 1 : 0);
      const QueueState &other = queues[waits[w].queue];
      if (count > 0 && step >= 0 && (other.step < step || (other.step == step && other.done < count)))
        return waits[w].queue;
    }
    return kNone;
  };
  size_t at = 0;
  while (finished(queues[at]))
    ++at;
  std::vector<size_t> chain;
  while (true) {
    auto seen = std::find(chain.begin(), chain.end(), at);
    if (seen != chain.end()) {
      chain.erase(chain.begin(), seen);
      break;
    }
    chain.push_back(at);
    uint32_t next = blocker(at);
    if (next == kNone || finished(queues[next]))
      return Status::check("it stops: " + text(at) + " waits for something that never comes");
    at = next;
  }
  std::string message =
      "it stops in a cycle of " + std::to_string(chain.size()) + " instructions, each waiting for the next:";
  for (size_t q : chain)
    message += "\n  " + text(q);
  return Status::check(message);
}

} // namespace pipec::simulate
