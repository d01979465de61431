#include "runtime/simulate/Walk.h"

#include <algorithm>
#include <utility>

namespace pipec::simulate {

using plan::Instruction;
using plan::Kind;
using plan::Time;

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

Status Walk::advance(int64_t steps, bool isOpen) {
  target = steps;
  open = isOpen;
  for (const size_t place : std::exchange(held, {}))
    noteTurn(place);
  for (PlaceResult &place : result.places) {
    place.firstStart.resize(size_t(steps), -1);
    place.lastEnd.resize(size_t(steps), 0);
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
    if (!finished(queue) && std::find(held.begin(), held.end(), size_t(queue.place)) == held.end())
      return stopped();
  return {};
}

/// Whether the head's waits are met, and when they were. If not, wakes the queue when they may be.
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

/// The time at which a process has computed for `time`.
Time Walk::ownEnd(const QueueState &queue, Time start, Time time) const {
  if (!options.scenario)
    return start + time;
  if (shards == 1)
    return options.scenario->computeEnd(queue.place, start, time);
  return options.scenario->ownEnd(rankOf(queue), queue.place % shards, variant.own[size_t(queue.place)].factor, start,
                                  time);
}

bool Walk::mayBegin(uint32_t q) {
  const QueueState &queue = queues[q];
  for (uint32_t other = firstQueue[size_t(queue.place)]; other != firstQueue[size_t(queue.place) + 1]; ++other)
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
    if (inOrder && plan::isCommunication(work.kind) && !launch(q, when))
      return;
    if (plan::isCollective(work.kind))
      return join(q, when);
    if (work.link == kSums)
      return come(q, when);
    if (!plan::isTransfer(work.kind)) {
      if (!queue.shares) {
        compute(q, when);
        continue;
      }
      queue.posted = true;
      queue.ready = when;
      noteTurn(size_t(queue.place));
      return;
    }
    Link &link = links[work.link];
    (plan::sends(work.kind) ? link.send : link.recv) = {true, when, q};
    queue.posted = true;
    if (!link.send.posted || !link.recv.posted)
      return;
    if (!ports.empty())
      return noteLink(work.link);
    const uint32_t other = link.send.queue == q ? link.recv.queue : link.send.queue;
    cross(work.link, startOf(link));
    pending.push_back(other);
  }
}

Time Walk::startOf(const Link &link) const {
  Time start = std::max({link.send.ready, link.recv.ready, link.free});
  if (!ports.empty())
    start = std::max({start, ports[size_t(queues[link.send.queue].place)].outward,
                      ports[size_t(queues[link.recv.queue].place)].inward});
  return start;
}

/// Runs a transfer with both its ends. If the link is cut, neither end ever goes on.
void Walk::cross(uint32_t at, Time start) {
  Link &link = links[at];
  const Work &work = workOf(head(queues[link.send.queue]));
  const int32_t from = queues[link.send.queue].place, to = queues[link.recv.queue].place;
  Time wireEnd = start + work.cost;
  Time arrival = wireEnd + work.latency;
  if (options.scenario) {
    Scenario::Passage passage = options.scenario->transfer(from / shards, to / shards, *work.operation, start);
    if (passage.lost) {
      lost = {true, from / shards, to / shards};
      return;
    }
    wireEnd = passage.end;
    arrival = passage.arrival;
  }
  const Time held = options.idealLinks ? start : wireEnd;
  link.free = held;
  if (!ports.empty())
    ports[size_t(from)].outward = ports[size_t(to)].inward = held;
  link.send.posted = link.recv.posted = false;
  queues[link.send.queue].posted = queues[link.recv.queue].posted = false;
  complete(link.send.queue, start, held, wireEnd);
  complete(link.recv.queue, start, held, arrival);
}

/// The position of the end at the head among the ends of its process in the step.
int64_t Walk::endOf(const QueueState &queue) const {
  const Loop &loop = loops[queue.loop];
  return loop.ends + queue.trip * loop.endsPerTrip + endsBefore[queue.at];
}

/// Starts the end at the head if every earlier end of its process has started, and no sooner than they did. If not,
/// wakes the queue when they have.
bool Walk::launch(uint32_t q, Time &when) {
  const QueueState &queue = queues[q];
  Launched &own = launched[size_t(queue.place)];
  if (queue.step != own.step || endOf(queue) != own.next) {
    if (std::find(own.waiting.begin(), own.waiting.end(), q) == own.waiting.end())
      own.waiting.push_back(q);
    return false;
  }
  own.last = when = std::max(when, own.last);
  if (++own.next == own.perStep) {
    own.lastOf[size_t(own.step++) % kKept] = own.last;
    own.next = 0;
  }
  pending.insert(pending.end(), own.waiting.begin(), own.waiting.end());
  own.waiting.clear();
  return true;
}

/// The time at which the head, which may have a window, starts on its device.
Time Walk::resume(const QueueState &queue, Time ready) {
  const plan::Window &window = windows[queue.at];
  if (window.length == 0 || (queue.step == 0 && queue.done == 0))
    return ready;
  const Resume at{queue.place,
                  queue.step,
                  indexOf(queue),
                  (queue.shares ? devices[size_t(queue.place)].free : queue.free) + window.from,
                  ready,
                  window.length,
                  variant.pieceTime(programOf(size_t(queue.place)))};
  if (options.resume)
    return options.resume(at);
  const int64_t count = at.pieces();
  if (count > 0 && options.observePieces)
    options.observePieces(at, count);
  return std::max(ready, at.free + count * at.piece);
}

/// Runs the head on its device and returns when the device is free again. The header of a pair takes no time; it sets
/// the end of the two passes after it, which both start with the header.
Time Walk::compute(uint32_t q, Time start) {
  QueueState &queue = queues[q];
  const Work &work = workOf(head(queue));
  if (!windows.empty())
    start = resume(queue, start);
  Time end = work.inPair == Work::InPair::No ? ownEnd(queue, start, work.cost) : queue.pairEnd;
  Time freeAt = work.inPair == Work::InPair::First ? start : end;
  if (plan::isHeader(work.kind)) {
    queue.pairEnd = end;
    freeAt = end = start;
  }
  complete(q, start, freeAt, end);
  return freeAt;
}

/// Whether the head of a queue is at a collective.
bool Walk::stands(uint32_t q, uint32_t collective) const {
  const QueueState &queue = queues[q];
  return queue.posted && plan::isCollective(workOf(head(queue)).kind) && workOf(head(queue)).link == collective;
}

/// A process has come to a collective; the last one to come lets all go on.
void Walk::join(uint32_t q, Time when) {
  queues[q].posted = true;
  Collective &collective = collectives[workOf(head(queues[q])).link];
  collective.ready = collective.count == 0 ? when : std::max(collective.ready, when);
  if (++collective.count != collective.members)
    return;
  if (!ports.empty())
    noteCollective(workOf(head(queues[q])).link);
  else
    meet(collective, collective.ready);
}

/// Runs a collective to which all members have come.
void Walk::meet(Collective &collective, Time start) {
  collective.count = 0;
  for (uint32_t other : collective.queues) {
    const Work &work = workOf(head(queues[other]));
    const Time end = options.scenario && plan::isOfLayers(*work.operation)
                         ? options.scenario->exchangeEnd(*work.operation, start)
                         : start + work.cost;
    if (const auto place = size_t(queues[other].place); !ports.empty())
      ports[place].outward = ports[place].inward = end;
    queues[other].posted = false;
    complete(other, start, end, end);
    pending.push_back(other);
  }
}

/// The instruction that a shared device runs next, of those that are known to be able to start.
std::optional<Walk::Turn> Walk::nextTurn(size_t place, uint32_t &queue) const {
  const Device &device = devices[place];
  std::optional<Turn> best;
  for (uint32_t q : device.queues) {
    if (!queues[q].posted)
      continue;
    Turn turn{std::max(queues[q].ready, device.free),
              plan::urgencyOf(programOf(place).queues[queues[q].index].priority), Turn::Of::Device, place};
    if (!best || turn.start < best->start) {
      best = turn;
      queue = q;
    }
  }
  return best;
}

void Walk::noteTurn(size_t place) {
  uint32_t queue = kNone;
  if (std::optional<Turn> turn = nextTurn(place, queue))
    turns.push(*turn);
}

void Walk::takeTurn() {
  const Turn noted = turns.top();
  turns.pop();
  switch (noted.of) {
  case Turn::Of::Device:
    return takeDevice(noted);
  case Turn::Of::Link:
    return takeLink(noted);
  case Turn::Of::Collective:
    return takeCollective(noted);
  }
}

void Walk::takeDevice(const Turn &noted) {
  uint32_t q = kNone;
  std::optional<Turn> turn = nextTurn(noted.number, q);
  if (turn != noted) // something else was noted or ran since; the next turn has been noted then
    return;
  Device &device = devices[noted.number];
  const uint32_t computeQueue = firstQueue[noted.number];
  if (open && q != computeQueue && finished(queues[computeQueue])) {
    held.push_back(noted.number);
    return;
  }
  QueueState &queue = queues[q];
  queue.posted = false;
  device.free = compute(q, turn->start);
  pending.push_back(q);
  noteTurn(noted.number);
}

/// Wakes the queues that wait for this one and now need wait no longer.
void Walk::wake(QueueState &queue) {
  std::erase_if(queue.waiters, [&](const Waiter &waiter) {
    if (!hasDone(queue, waiter.step, waiter.count))
      return false;
    pending.push_back(waiter.queue);
    return true;
  });
}

/// Counts the memory and the time of a pass, in the first step.
void Walk::count(const QueueState &queue, const Work &work, Time own) {
  PlaceResult &place = result.places[size_t(queue.place)];
  if (plan::isBusy(work.kind) && work.inPair != Work::InPair::First)
    place.busy += own;
  __int128 &held = live[size_t(queue.place)];
  const auto hold = [&](const plan::Operation &operation) {
    held += plan::takenBy(operation);
    if (held > place.peakActivation) {
      place.peakActivation = saturated(held);
      place.peakIndex = indexOf(queue);
    }
    held -= plan::freedBy(operation);
  };
  if (shards == 1)
    return hold(*work.operation);
  hold(plan::operationOf(variant, size_t(queue.place), *work.operation));
}

/// A process's step begins with the first start on its device queues and ends with the last end.
void Walk::bracket(const QueueState &queue, Time start, Time end) {
  PlaceResult &place = result.places[size_t(queue.place)];
  if (queue.done == 0) {
    Time &first = place.firstStart[size_t(queue.step)];
    first = first < 0 ? start : std::min(first, start);
  }
  if (queue.done + 1 == queue.perStep) {
    Time &last = place.lastEnd[size_t(queue.step)];
    last = std::max(last, end);
  }
}

/// How many entries to prefetch.
constexpr size_t kAhead = 8;

/// The head has run: accounts for it and moves on.
void Walk::complete(uint32_t q, Time start, Time freeAt, Time completedAt, const Met *met) {
  QueueState &queue = queues[q];
  const Work &work = workOf(head(queue));
  // One operation adds at most two times kTime to a time up to kLatest, so sums stay in 64 bits.
  tooLong |= completedAt > kLatest;
  auto &completed = queue.completed[size_t(queue.step) % kKept];
  if (queue.done == 0 && !completed)
    completed = std::make_unique_for_overwrite<Time[]>(size_t(queue.perStep));
  Time *times = completed.get() + queue.done;
  *times = queue.done == 0 ? completedAt : std::max(completedAt, times[-1]);
  // Prefetches by hand: each queue reads its own arrays in order, but there are more queues than a processor's
  // prefetcher follows.
  __builtin_prefetch(completed.get() + std::min<size_t>(size_t(queue.done) + kAhead, size_t(queue.perStep)), 1);
  __builtin_prefetch(entries.data() + std::min<size_t>(size_t(queue.at) + kAhead, entries.size()));
  __builtin_prefetch(waits.data() + std::min<size_t>(size_t(head(queue).firstWait) + kAhead, waits.size()));
  if (!plan::isCommunication(work.kind)) {
    if (queue.step == 0)
      count(queue, work, met ? met->own : completedAt - start);
    if (queue.done == 0 || queue.done + 1 == queue.perStep)
      bracket(queue, start, *times);
  } else if (queue.step == 0 && plan::isOfLayers(*work.operation)) {
    result.places[size_t(queue.place)].exchanged = completedAt;
  }
  if (options.observe) {
    const Instruction &instruction = instructionOf(queue);
    const Met alone{completedAt, completedAt, plan::isBusy(work.kind) ? completedAt - start : 0, 0};
    const Met &own = met ? *met : alone;
    options.observe({queue.place, rankOf(queue), queue.place % shards, queue.index, work.operation,
                     instruction.microbatch + instruction.microbatchStride * queue.trip, queue.step, start, completedAt,
                     indexOf(queue), *times, freeAt, own.own, own.waited, own.came, own.met});
  }
  if (options.keepTimes) {
    auto &kept = result.places[size_t(queue.place)].times;
    if (kept.size() == size_t(queue.step))
      kept.emplace_back(size_t(plan::executed(programOf(size_t(queue.place)))));
    kept[size_t(queue.step)][size_t(indexOf(queue))] = {start, completedAt};
    result.overtaken |= completedAt != *times;
  }
  if (options.keepVisits && queue.step == 0)
    result.places[size_t(queue.place)].visits.push_back({start, completedAt, uint32_t(indexOf(queue))});
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

void Walk::conclude() {
  for (const QueueState &queue : queues)
    if (queue.perStep != 0 && queue.step != 0) {
      Time &over = result.places[size_t(queue.place)].over;
      over = std::max(over, completions(queue, queue.step - 1)[queue.perStep - 1]);
    }
}

uint64_t Walk::signature(int64_t step) const {
  uint64_t hash = 0xcbf29ce484222325u;
  const Time base = reference(step);
  const auto add = [&](Time time) {
    hash = (hash ^ uint64_t(time - base)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  for (const QueueState &queue : queues) {
    if (queue.perStep == 0)
      continue;
    const Time *times = completions(queue, step);
    for (int64_t i = 0; i != queue.perStep; ++i)
      add(times[i]);
  }
  for (const Launched &own : launched)
    if (own.perStep != 0)
      add(own.lastOf[size_t(step) % kKept]);
  return hash;
}

} // namespace pipec::simulate
