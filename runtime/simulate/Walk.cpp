#include "runtime/simulate/Walk.h"

#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Text.h"

#include <algorithm>
#include <map>

namespace pipec::simulate {

using plan::Instruction;
using plan::Kind;
using plan::Operation;
using plan::Program;
using plan::Time;

Walk::Walk(const plan::Variant &variant, const Options &options) : variant(variant), options(options) {
  result.ranks.resize(variant.programs.size());
  live.resize(variant.programs.size());
  linkOf.resize(variant.programs.size());
  // One link a directed pair of ranks. Ideal links never queue: there each stage and payload has one of its own.
  std::map<std::array<int32_t, 4>, uint32_t> linkIndex;
  for (size_t rank = 0; rank != variant.programs.size(); ++rank) {
    const Program &program = variant.programs[rank];
    firstQueue.push_back(queues.size());
    queues.resize(queues.size() + program.queues.size());
    QueueState *own = queues.data() + firstQueue.back();
    for (size_t q = 0; q != program.queues.size(); ++q) {
      own[q].rank = int32_t(rank);
      own[q].index = uint32_t(q);
    }
    int64_t issued = 0;
    issuedBefore.emplace_back();
    for (const plan::Segment &segment : program.step) {
      issuedBefore.back().push_back(issued);
      issued += int64_t(segment.count) * segment.trips;
      for (size_t q = 0; q != program.queues.size(); ++q)
        own[q].segmentStart.push_back(uint32_t(own[q].instructions.size()));
      for (uint32_t i = segment.first; i != segment.first + segment.count; ++i) {
        QueueState &queue = own[program.instructions[i].queue];
        queue.instructions.push_back(i);
        queue.perStep += segment.trips;
      }
    }
    linkOf[rank].resize(program.operations.size());
    for (size_t o = 0; o != program.operations.size(); ++o) {
      const Operation &operation = program.operations[o];
      if (!plan::isTransfer(operation.kind))
        continue;
      bool sends = operation.kind == Kind::Send;
      std::array<int32_t, 4> key = {int32_t(rank), operation.peer, 0, 0};
      if (!sends)
        std::swap(key[0], key[1]);
      if (options.idealLinks) {
        key[2] = int32_t(operation.of);
        key[3] = sends                                    ? operation.stage
                 : operation.of == plan::Payload::Forward ? operation.stage - 1
                                                          : operation.stage + 1;
      }
      linkOf[rank][o] = linkIndex.try_emplace(key, uint32_t(linkIndex.size())).first->second;
    }
    for (const Instruction &instruction : program.instructions) {
      const Operation &operation = program.operations[instruction.operation];
      if (!plan::isTransfer(operation.kind))
        continue;
      links.resize(std::max(links.size(), linkIndex.size()));
      Link &link = links[linkOf[rank][instruction.operation]];
      (operation.kind == Kind::Send ? link.send : link.recv).queue = firstQueue.back() + instruction.queue;
    }
    Device &device = devices.emplace_back();
    for (size_t q = 0; q != program.queues.size(); ++q) {
      own[q].segmentStart.push_back(uint32_t(own[q].instructions.size()));
      rewind(own[q]);
      if (program.queues[q].kind == plan::QueueKind::Device)
        device.queues.push_back(firstQueue.back() + q);
    }
    std::sort(device.queues.begin(), device.queues.end(), [&](size_t a, size_t b) {
      return std::pair(program.queues[queues[a].index].priority, a) <
             std::pair(program.queues[queues[b].index].priority, b);
    });
    if (device.queues.size() == 1)
      device.queues.clear();
  }
  links.resize(linkIndex.size());
}

const Instruction &Walk::head(const QueueState &queue) const {
  return variant.programs[size_t(queue.rank)]
      .instructions[queue.instructions[queue.segmentStart[queue.segment] + queue.at]];
}

int64_t Walk::indexOf(const QueueState &queue) const {
  const plan::Segment &segment = variant.programs[size_t(queue.rank)].step[queue.segment];
  return issuedBefore[size_t(queue.rank)][queue.segment] + queue.trip * int64_t(segment.count) +
         queue.instructions[queue.segmentStart[queue.segment] + queue.at] - segment.first;
}

/// To the first segment that holds an instruction of this queue.
void Walk::rewind(QueueState &queue) const {
  queue.segment = 0;
  queue.at = 0;
  queue.trip = 0;
  const auto &segments = variant.programs[size_t(queue.rank)].step;
  while (queue.segment != segments.size() &&
         (queue.segmentStart[queue.segment] == queue.segmentStart[queue.segment + 1] ||
          segments[queue.segment].trips == 0))
    ++queue.segment;
}

Status Walk::advance(int64_t steps) {
  target = steps;
  for (RankResult &rank : result.ranks) {
    rank.firstStart.resize(size_t(steps), -1);
    rank.lastEnd.resize(size_t(steps), 0);
  }
  for (size_t q = queues.size(); q-- != 0;)
    pending.push_back(q);
  // A turn on a shared device is taken only when nothing else can run: whatever is not known yet then comes no earlier
  // than the earliest turn, so no head of a higher queue can still claim it.
  while ((!pending.empty() || !turns.empty()) && !tooLong) {
    if (pending.empty()) {
      takeTurn();
      continue;
    }
    size_t queue = pending.back();
    pending.pop_back();
    run(queue);
  }
  if (tooLong)
    return Status::check("it takes longer than 10^18 ps (about 11 days) for a step, which is the most");
  for (const QueueState &queue : queues)
    if (!finished(queue))
      return stopped();
  return {};
}

/// Whether the head's waits are met, and when; if not, the queue is woken when they may be.
bool Walk::ready(size_t q, Time &when) {
  const QueueState &queue = queues[q];
  const Program &program = variant.programs[size_t(queue.rank)];
  const Instruction &instruction = head(queue);
  when = queue.free;
  for (uint32_t w = instruction.firstWait; w != instruction.firstWait + instruction.waits; ++w) {
    const plan::Wait &wait = program.waits[w];
    int64_t count = wait.base + wait.stride * queue.trip;
    int64_t step = queue.step - (wait.previousStep ? 1 : 0);
    if (count <= 0 || step < 0)
      continue;
    QueueState &other = queues[firstQueue[size_t(queue.rank)] + wait.queue];
    if (other.step < step || (other.step == step && other.done < count)) {
      other.waiters.push_back(q);
      return false;
    }
    when = std::max(when, other.completed[size_t(step % kKept)][size_t(count - 1)]);
  }
  return true;
}

Time Walk::computeEnd(const Operation &operation, size_t rank, Time start) const {
  if (!options.scenario)
    return start + operation.cost;
  const Time begin = options.scenarioStart;
  return options.scenario->computeEnd(int32_t(rank), begin + start, operation.cost) - begin;
}

/// Runs a queue as far as it goes.
void Walk::run(size_t q) {
  QueueState &queue = queues[q];
  while (!finished(queue) && !queue.posted && !tooLong) {
    // What a queue of this rank two steps behind may still ask for must not be overwritten.
    if (queue.done == 0 && queue.step >= 2) {
      const auto *own = queues.data() + firstQueue[size_t(queue.rank)];
      size_t behind = 0, count = variant.programs[size_t(queue.rank)].queues.size();
      while (behind != count && (own[behind].perStep == 0 || own[behind].step >= queue.step - 1))
        ++behind;
      if (behind != count) {
        queues[firstQueue[size_t(queue.rank)] + behind].waiters.push_back(q);
        return;
      }
    }
    Time when = 0;
    if (!ready(q, when))
      return;
    const Instruction &instruction = head(queue);
    const Operation &operation = variant.programs[size_t(queue.rank)].operations[instruction.operation];
    if (!plan::isTransfer(operation.kind)) {
      if (devices[size_t(queue.rank)].queues.empty()) {
        Time end = computeEnd(operation, size_t(queue.rank), when);
        complete(q, when, end, end);
        continue;
      }
      queue.posted = true;
      queue.ready = when;
      noteTurn(size_t(queue.rank));
      return;
    }
    Link &link = links[linkOf[size_t(queue.rank)][instruction.operation]];
    Side &mine = operation.kind == Kind::Send ? link.send : link.recv;
    mine = {true, when, q};
    queue.posted = true;
    if (!link.send.posted || !link.recv.posted)
      return;
    Time start = std::max({link.send.ready, link.recv.ready, link.free});
    Time wireEnd = start + operation.cost;
    Time arrival = wireEnd + operation.latency;
    if (options.scenario) {
      int32_t from = queues[link.send.queue].rank, to = queues[link.recv.queue].rank;
      Scenario::Passage passage = options.scenario->transfer(from, to, operation, options.scenarioStart + start);
      if (passage.lost) { // neither side ever goes on
        lost = {true, from, to};
        return;
      }
      wireEnd = passage.end - options.scenarioStart;
      arrival = passage.arrival - options.scenarioStart;
    }
    Time held = options.idealLinks ? start : wireEnd;
    link.free = held;
    link.send.posted = link.recv.posted = false;
    size_t other = link.send.queue == q ? link.recv.queue : link.send.queue;
    queues[other].posted = queue.posted = false;
    complete(link.send.queue, start, held, wireEnd);
    complete(link.recv.queue, start, held, arrival);
    pending.push_back(other);
  }
}

/// The instruction that a shared device runs next, of those that are known to be able to.
std::optional<Walk::Turn> Walk::nextTurn(size_t rank, size_t &queue) const {
  const Device &device = devices[rank];
  std::optional<Turn> best;
  for (size_t q : device.queues) {
    if (!queues[q].posted)
      continue;
    Turn turn{std::max(queues[q].ready, device.free), variant.programs[rank].queues[queues[q].index].priority, rank};
    if (!best || turn.start < best->start) {
      best = turn;
      queue = q;
    }
  }
  return best;
}

void Walk::noteTurn(size_t rank) {
  size_t queue = kNone;
  if (std::optional<Turn> turn = nextTurn(rank, queue))
    turns.push(*turn);
}

void Walk::takeTurn() {
  Turn noted = turns.top();
  turns.pop();
  size_t q = kNone;
  std::optional<Turn> turn = nextTurn(noted.rank, q);
  if (!turn)
    return;
  if (*turn != noted) { // something else ran in between
    if (*turn > noted)
      turns.push(*turn);
    return;
  }
  Device &device = devices[noted.rank];
  QueueState &queue = queues[q];
  const Operation &operation = variant.programs[noted.rank].operations[head(queue).operation];
  device.free = computeEnd(operation, noted.rank, turn->start);
  queue.posted = false;
  complete(q, turn->start, device.free, device.free);
  pending.push_back(q);
  noteTurn(noted.rank);
}

void Walk::wake(QueueState &queue) {
  pending.insert(pending.end(), queue.waiters.begin(), queue.waiters.end());
  queue.waiters.clear();
}

void Walk::count(const QueueState &queue, const Operation &operation, Time start, Time end) {
  RankResult &rank = result.ranks[size_t(queue.rank)];
  Time &first = rank.firstStart[size_t(queue.step)];
  if (first < 0)
    first = start;
  rank.lastEnd[size_t(queue.step)] = std::max(rank.lastEnd[size_t(queue.step)], end);
  if (queue.step != 0)
    return;
  if (plan::isCompute(operation.kind) || operation.kind == Kind::Optimizer)
    rank.busy += end - start;
  __int128 &held = live[size_t(queue.rank)];
  if (operation.kind == Kind::Forward) {
    held += __int128(operation.activation) + operation.context;
    if (held > rank.peakActivation) {
      rank.peakActivation = saturated(held);
      rank.peakIndex = indexOf(queue);
    }
  } else {
    held -= __int128(operation.activation) + operation.context;
  }
}

/// The head has run: accounts for it and moves on.
void Walk::complete(size_t q, Time start, Time freeAt, Time completedAt) {
  QueueState &queue = queues[q];
  const Program &program = variant.programs[size_t(queue.rank)];
  const Instruction &instruction = head(queue);
  const Operation &operation = program.operations[instruction.operation];
  if (!plan::isTransfer(operation.kind))
    count(queue, operation, start, completedAt);
  if (options.observe)
    options.observe({queue.rank, queue.index, &operation,
                     instruction.microbatch + instruction.microbatchStride * queue.trip, queue.step, start, completedAt,
                     indexOf(queue)});

  // One operation adds at most two times kTime to what stands below the latest time, so sums stay in 64 bits.
  tooLong |= completedAt > kLatest;
  auto &times = queue.completed[size_t(queue.step % kKept)];
  if (queue.done == 0) {
    times.clear();
    times.reserve(size_t(queue.perStep));
  }
  times.push_back(times.empty() ? completedAt : std::max(completedAt, times.back()));
  queue.free = freeAt;
  ++queue.done;
  if (++queue.at == queue.segmentStart[queue.segment + 1] - queue.segmentStart[queue.segment]) {
    queue.at = 0;
    if (++queue.trip == program.step[queue.segment].trips) {
      queue.trip = 0;
      do
        ++queue.segment;
      while (queue.segment != program.step.size() &&
             (queue.segmentStart[queue.segment] == queue.segmentStart[queue.segment + 1] ||
              program.step[queue.segment].trips == 0));
    }
  }
  if (queue.done == queue.perStep) {
    ++queue.step;
    queue.done = 0;
    rewind(queue);
  }
  wake(queue);
}

uint64_t Walk::signature(int64_t step) const {
  uint64_t hash = 0xcbf29ce484222325u;
  Time base = reference(step);
  for (const QueueState &queue : queues) {
    if (queue.perStep == 0)
      continue;
    for (Time time : queue.completed[size_t(step % kKept)])
      hash = (hash ^ uint64_t(time - base)) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
  }
  return hash;
}

/// Follows, from some queue that stands still, what each head waits for, until one comes again.
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
    const Instruction &instruction = head(queue);
    return plan::describe(queue.rank, variant.programs[size_t(queue.rank)].operations[instruction.operation],
                          instruction.microbatch + instruction.microbatchStride * queue.trip);
  };
  auto blocker = [&](size_t q) -> size_t {
    const QueueState &queue = queues[q];
    const Program &program = variant.programs[size_t(queue.rank)];
    const Instruction &instruction = head(queue);
    if (queue.posted && plan::isTransfer(program.operations[instruction.operation].kind)) {
      const Link &link = links[linkOf[size_t(queue.rank)][instruction.operation]];
      return program.operations[instruction.operation].kind == Kind::Send ? link.recv.queue : link.send.queue;
    }
    for (uint32_t w = instruction.firstWait; w != instruction.firstWait + instruction.waits; ++w) {
      const plan::Wait &wait = program.waits[w];
      int64_t count = wait.base + wait.stride * queue.trip;
      int64_t step = queue.step - (wait.previousStep ? 1 : 0);
      size_t other = firstQueue[size_t(queue.rank)] + wait.queue;
      if (count > 0 && step >= 0 &&
          (queues[other].step < step || (queues[other].step == step && queues[other].done < count)))
        return other;
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
    size_t next = blocker(at);
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
