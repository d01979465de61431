#include "runtime/simulate/Walk.h"

#include "runtime/plan/Disassemble.h"
#include "runtime/plan/Text.h"

#include <algorithm>

namespace pipec::simulate {

using plan::Instruction;
using plan::Kind;
using plan::Operation;
using plan::Program;
using plan::Time;

Walk::Walk(const plan::Variant &variant, const Options &options) : variant(variant), options(options) {
  result.ranks.resize(variant.programs.size());
  live.resize(variant.programs.size());
  size_t queueCount = 0, instructionCount = 0, waitCount = 0;
  for (const Program &program : variant.programs) {
    queueCount += program.queues.size();
    instructionCount += program.instructions.size();
    waitCount += program.waits.size();
  }
  queues.resize(queueCount);
  entries.reserve(instructionCount);
  waits.reserve(waitCount);
  firstQueue.push_back(0);
  for (size_t rank = 0; rank != variant.programs.size(); ++rank) {
    build(rank);
    if (options.keepVisits)
      result.ranks[rank].visits.reserve(size_t(plan::executed(variant.programs[rank])));
  }
}

/// A rank's queues: its instructions, apart by queue.
void Walk::build(size_t rank) {
  const Program &program = variant.programs[rank];
  const uint32_t base = firstQueue.back(), firstWork = uint32_t(works.size());
  firstQueue.push_back(base + uint32_t(program.queues.size()));
  // One link a directed pair of ranks. Ideal links never queue: there each stage and payload has one of its own.
  for (const Operation &operation : program.operations) {
    works.push_back({&operation, operation.cost, operation.latency, kNone, operation.kind});
    if (operation.kind == Kind::AllReduce) {
      const bool all = operation.peer == -1;
      const int32_t key = all ? -1 : std::min(int32_t(rank), operation.peer);
      works.back().link = collectiveOf.try_emplace(key, uint32_t(collectives.size())).first->second;
      if (works.back().link == collectives.size())
        collectives.emplace_back().ranks = all ? variant.programs.size() : 2;
    }
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
    works.back().link = linkIndex.try_emplace(key, uint32_t(linkIndex.size())).first->second;
  }
  links.resize(linkIndex.size());

  std::vector<std::vector<uint32_t>> own(program.queues.size());        // instructions
  std::vector<std::vector<uint32_t>> segmentEnd(program.queues.size()); // and where each segment's end
  for (const plan::Segment &segment : program.step) {
    for (uint32_t i = segment.first; i != segment.first + segment.count && segment.trips != 0; ++i)
      own[program.instructions[i].queue].push_back(i);
    for (size_t q = 0; q != own.size(); ++q)
      segmentEnd[q].push_back(uint32_t(own[q].size()));
  }
  Device &device = devices.emplace_back();
  for (size_t q = 0; q != program.queues.size(); ++q) {
    QueueState &queue = queues[base + q];
    queue.rank = int32_t(rank);
    queue.index = uint32_t(q);
    queue.firstLoop = uint32_t(loops.size());
    uint32_t entry = uint32_t(entries.size()), from = 0;
    int64_t issued = 0; // of all queues, in the segments before
    for (size_t s = 0; s != program.step.size(); from = segmentEnd[q][s++]) {
      const plan::Segment &segment = program.step[s];
      if (segmentEnd[q][s] != from) {
        loops.push_back(
            {entry + from, entry + segmentEnd[q][s], segment.trips, issued - segment.first, int64_t(segment.count)});
        queue.perStep += int64_t(segmentEnd[q][s] - from) * segment.trips;
      }
      issued += int64_t(segment.count) * segment.trips;
    }
    queue.endLoop = uint32_t(loops.size());
    Work::InPair inPair = Work::InPair::No; // what comes next
    for (uint32_t i : own[q]) {
      const Instruction &instruction = program.instructions[i];
      uint32_t at = firstWork + instruction.operation;
      if (inPair != Work::InPair::No) {
        works.push_back(works[at]);
        works.back().inPair = inPair;
        inPair = inPair == Work::InPair::First ? Work::InPair::Second : Work::InPair::No;
        at = uint32_t(works.size() - 1);
      } else if (works[at].kind == Kind::Overlapped) {
        inPair = Work::InPair::First;
      }
      const Work &work = works[at];
      entries.push_back({i, at, uint32_t(waits.size()), instruction.waits});
      for (uint32_t w = instruction.firstWait; w != instruction.firstWait + instruction.waits; ++w) {
        const plan::Wait &wait = program.waits[w];
        waits.push_back({wait.base, int32_t(wait.stride), base + wait.queue, wait.previousStep});
      }
      if (work.kind == Kind::AllReduce)
        if (std::vector<uint32_t> &all = collectives[work.link].queues; all.empty() || all.back() != base + q)
          all.push_back(uint32_t(base + q));
      if (plan::isTransfer(work.kind)) {
        Link &link = links[work.link];
        (work.kind == Kind::Send ? link.send : link.recv).queue = uint32_t(base + q);
      }
    }
    if (queue.firstLoop != queue.endLoop)
      enter(queue, queue.firstLoop);
    if (program.queues[q].kind == plan::QueueKind::Device)
      device.queues.push_back(uint32_t(base + q));
  }
  std::sort(device.queues.begin(), device.queues.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(program.queues[queues[a].index].priority, a) <
           std::pair(program.queues[queues[b].index].priority, b);
  });
  if (device.queues.size() == 1)
    device.queues.clear();
  for (uint32_t q : device.queues)
    queues[q].shares = true;
}

int64_t Walk::indexOf(const QueueState &queue) const {
  const Loop &loop = loops[queue.loop];
  return loop.issued + queue.trip * loop.perTrip + int64_t(head(queue).instruction);
}

void Walk::enter(QueueState &queue, uint32_t loop) const {
  queue.loop = loop;
  queue.trip = 0;
  queue.trips = loops[loop].trips;
  queue.at = queue.first = loops[loop].first;
  queue.last = loops[loop].last;
}

Status Walk::advance(int64_t steps) {
  target = steps;
  for (RankResult &rank : result.ranks) {
    rank.firstStart.resize(size_t(steps), -1);
    rank.lastEnd.resize(size_t(steps), 0);
  }
  for (uint32_t q = uint32_t(queues.size()); q-- != 0;)
    pending.push_back(q);
  // A turn on a shared device is taken only when nothing else can run: whatever is not known yet then comes no earlier
  // than the earliest turn, so no head of a higher queue can still claim it.
  while ((!pending.empty() || !turns.empty()) && !tooLong) {
    if (pending.empty()) {
      takeTurn();
      continue;
    }
    uint32_t queue = pending.back();
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
bool Walk::ready(uint32_t q, Time &when) {
  const QueueState &queue = queues[q];
  const Entry &entry = head(queue);
  when = queue.free;
  for (const Wait *wait = waits.data() + entry.firstWait, *end = wait + entry.waits; wait != end; ++wait) {
    int64_t count = wait->base + wait->stride * queue.trip;
    int64_t step = queue.step - (wait->previousStep ? 1 : 0);
    if (count <= 0 || step < 0)
      continue;
    QueueState &other = queues[wait->queue];
    if (!hasDone(other, step, count)) {
      other.waiters.push_back({q, step, count});
      return false;
    }
    when = std::max(when, completions(other, step)[count - 1]);
  }
  return true;
}

Time Walk::computeEnd(const Work &work, int32_t rank, Time start) const {
  return options.scenario ? options.scenario->computeEnd(rank, start, work.cost) : start + work.cost;
}

bool Walk::mayBegin(uint32_t q) {
  const QueueState &queue = queues[q];
  for (uint32_t other = firstQueue[size_t(queue.rank)]; other != firstQueue[size_t(queue.rank) + 1]; ++other)
    if (queues[other].perStep != 0 && queues[other].step < queue.step - 1) {
      queues[other].waiters.push_back({q, queue.step - 1, 0});
      return false;
    }
  return true;
}

/// Runs a queue as far as it goes.
void Walk::run(uint32_t q) {
  QueueState &queue = queues[q];
  while (!finished(queue) && !queue.posted && !tooLong) {
    if (queue.done == 0 && queue.step >= 2 && !mayBegin(q))
      return;
    Time when = 0;
    if (!ready(q, when))
      return;
    const Work &work = workOf(head(queue));
    if (work.kind == Kind::AllReduce)
      return join(q, when);
    if (!plan::isTransfer(work.kind)) {
      if (!queue.shares) {
        compute(q, when);
        continue;
      }
      queue.posted = true;
      queue.ready = when;
      noteTurn(size_t(queue.rank));
      return;
    }
    Link &link = links[work.link];
    (work.kind == Kind::Send ? link.send : link.recv) = {true, when, q};
    queue.posted = true;
    if (!link.send.posted || !link.recv.posted)
      return;
    Time start = std::max({link.send.ready, link.recv.ready, link.free});
    Time wireEnd = start + work.cost;
    Time arrival = wireEnd + work.latency;
    if (options.scenario) {
      int32_t from = queues[link.send.queue].rank, to = queues[link.recv.queue].rank;
      Scenario::Passage passage = options.scenario->transfer(from, to, *work.operation, start);
      if (passage.lost) { // neither side ever goes on
        lost = {true, from, to};
        return;
      }
      wireEnd = passage.end;
      arrival = passage.arrival;
    }
    Time held = options.idealLinks ? start : wireEnd;
    link.free = held;
    link.send.posted = link.recv.posted = false;
    uint32_t other = link.send.queue == q ? link.recv.queue : link.send.queue;
    queues[other].posted = queue.posted = false;
    complete(link.send.queue, start, held, wireEnd);
    complete(link.recv.queue, start, held, arrival);
    pending.push_back(other);
  }
}

/// Runs the head on its device; when that is free for the next. The header of a pair takes no time and says when the
/// two behind it end, which both start with it.
Time Walk::compute(uint32_t q, Time start) {
  QueueState &queue = queues[q];
  const Work &work = workOf(head(queue));
  Time end = work.inPair == Work::InPair::No ? computeEnd(work, queue.rank, start) : queue.pairEnd;
  Time freeAt = work.inPair == Work::InPair::First ? start : end;
  if (work.kind == Kind::Overlapped) {
    queue.pairEnd = end;
    freeAt = end = start;
  }
  complete(q, start, freeAt, end);
  return freeAt;
}

/// Whether a queue has come to an all-reduce.
bool Walk::stands(uint32_t q, uint32_t collective) const {
  const QueueState &queue = queues[q];
  return queue.posted && workOf(head(queue)).kind == Kind::AllReduce && workOf(head(queue)).link == collective;
}

/// A rank has come to an all-reduce; the last one lets all go on.
void Walk::join(uint32_t q, Time when) {
  queues[q].posted = true;
  Collective &collective = collectives[workOf(head(queues[q])).link];
  collective.ready = collective.count == 0 ? when : std::max(collective.ready, when);
  if (++collective.count != collective.ranks)
    return;
  collective.count = 0;
  for (uint32_t other : collective.queues) {
    queues[other].posted = false;
    Time end = collective.ready + workOf(head(queues[other])).cost;
    complete(other, collective.ready, end, end);
    pending.push_back(other);
  }
}

/// The instruction that a shared device runs next, of those that are known to be able to.
std::optional<Walk::Turn> Walk::nextTurn(size_t rank, uint32_t &queue) const {
  const Device &device = devices[rank];
  std::optional<Turn> best;
  for (uint32_t q : device.queues) {
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
  uint32_t queue = kNone;
  if (std::optional<Turn> turn = nextTurn(rank, queue))
    turns.push(*turn);
}

void Walk::takeTurn() {
  Turn noted = turns.top();
  turns.pop();
  uint32_t q = kNone;
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
  queue.posted = false;
  device.free = compute(q, turn->start);
  pending.push_back(q);
  noteTurn(noted.rank);
}

/// Lets those go on whose waits are met now.
void Walk::wake(QueueState &queue) {
  std::erase_if(queue.waiters, [&](const Waiter &waiter) {
    if (!hasDone(queue, waiter.step, waiter.count))
      return false;
    pending.push_back(waiter.queue);
    return true;
  });
}

/// What a pass holds and how long it takes, in the first step.
void Walk::count(const QueueState &queue, const Work &work, Time start, Time end) {
  RankResult &rank = result.ranks[size_t(queue.rank)];
  if ((plan::isCompute(work.kind) && work.inPair != Work::InPair::First) || work.kind == Kind::Optimizer)
    rank.busy += end - start;
  __int128 &held = live[size_t(queue.rank)];
  const __int128 bytes = __int128(work.operation->activation) + work.operation->context;
  if (work.kind != Kind::Forward) {
    held -= bytes;
    return;
  }
  held += bytes;
  if (held > rank.peakActivation) {
    rank.peakActivation = saturated(held);
    rank.peakIndex = indexOf(queue);
  }
}

/// A rank's step begins with the first start on its device queues and ends with the last end.
void Walk::bracket(const QueueState &queue, Time start, Time end) {
  RankResult &rank = result.ranks[size_t(queue.rank)];
  if (queue.done == 0) {
    Time &first = rank.firstStart[size_t(queue.step)];
    first = first < 0 ? start : std::min(first, start);
  }
  if (queue.done + 1 == queue.perStep) {
    Time &last = rank.lastEnd[size_t(queue.step)];
    last = std::max(last, end);
  }
}

/// The head has run: accounts for it and moves on.
void Walk::complete(uint32_t q, Time start, Time freeAt, Time completedAt) {
  QueueState &queue = queues[q];
  const Work &work = workOf(head(queue));
  // One operation adds at most two times kTime to what stands below the latest time, so sums stay in 64 bits.
  tooLong |= completedAt > kLatest;
  auto &completed = queue.completed[size_t(queue.step) % kKept];
  if (queue.done == 0 && !completed)
    completed = std::make_unique_for_overwrite<Time[]>(size_t(queue.perStep));
  Time *times = completed.get() + queue.done;
  *times = queue.done == 0 ? completedAt : std::max(completedAt, times[-1]);
  if (!plan::isCommunication(work.kind)) {
    if (queue.step == 0)
      count(queue, work, start, completedAt);
    if (queue.done == 0 || queue.done + 1 == queue.perStep)
      bracket(queue, start, *times);
  }
  if (options.observe) {
    const Instruction &instruction = instructionOf(queue);
    options.observe({queue.rank, queue.index, work.operation,
                     instruction.microbatch + instruction.microbatchStride * queue.trip, queue.step, start, completedAt,
                     indexOf(queue)});
  }
  if (options.keepVisits && queue.step == 0)
    result.ranks[size_t(queue.rank)].visits.push_back({start, completedAt, uint32_t(indexOf(queue))});
  queue.free = freeAt;
  ++queue.done;
  if (++queue.at == queue.last) {
    queue.at = queue.first;
    if (++queue.trip == queue.trips) {
      bool over = queue.loop + 1 == queue.endLoop;
      enter(queue, over ? queue.firstLoop : queue.loop + 1);
      if (over) {
        ++queue.step;
        queue.done = 0;
      }
    }
  }
  if (!queue.waiters.empty())
    wake(queue);
}

uint64_t Walk::signature(int64_t step) const {
  uint64_t hash = 0xcbf29ce484222325u;
  Time base = reference(step);
  for (const QueueState &queue : queues) {
    if (queue.perStep == 0)
      continue;
    const Time *times = completions(queue, step);
    for (int64_t i = 0; i != queue.perStep; ++i)
      hash = (hash ^ uint64_t(times[i] - base)) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
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
    const Instruction &instruction = instructionOf(queue);
    return plan::describe(queue.rank, *workOf(head(queue)).operation,
                          instruction.microbatch + instruction.microbatchStride * queue.trip);
  };
  auto blocker = [&](size_t q) -> uint32_t {
    const QueueState &queue = queues[q];
    const Entry &entry = head(queue);
    const Work &work = workOf(entry);
    if (queue.posted && plan::isTransfer(work.kind))
      return work.kind == Kind::Send ? links[work.link].recv.queue : links[work.link].send.queue;
    if (queue.posted && work.kind == Kind::AllReduce)
      for (uint32_t other : collectives[work.link].queues)
        if (!stands(other, work.link))
          return other;
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
