// Queues in memory and the thread that runs the device's. A lower queue starts work only while all higher ones wait:
// among heads that could start, the one that could start first goes, and at one instant the higher one (design,
// section 5).
#include "runtime/device/host/HostDevice.h"

#include "runtime/device/host/QuickClock.h"
#include "runtime/plan/Disassemble.h"

#include <algorithm>
#include <fmt/format.h>

namespace pipec::runtime {

// A wait looks back one step and the interpreter issues at most two steps ahead of the slowest queue, so times of three
// steps are all that can be asked for.
static std::vector<size_t> historySizes(const Layout &layout, size_t limit) {
  std::vector<size_t> sizes;
  for (int64_t count : layout.executed)
    sizes.push_back(size_t(std::min<int64_t>(3 * count + 1, int64_t(limit))));
  return sizes;
}

HostDevice::HostDevice(Layout queuesOf, const Clock &clock, Failure &failure, bool trace, Pace pace)
    : layout(std::move(queuesOf)), tracing(trace), paced(clock, pace), clock(clock),
      counters(historySizes(layout, kHistory), layout.queues.size() + 1) {
  for (QueueId q = 0; q < layout.queues.size(); ++q) {
    auto queue = std::make_unique<Queue>(q, counters, clock);
    bool device = layout.queues[q].kind == plan::QueueKind::Device;
    queue->recorder.place = layout.place;
    queue->recorder.queue = q;
    queue->recorder.device = device;
    queue->recorder.trace = trace;
    if (device) {
      queue->setBell(deviceBell);
      deviceQueues.push_back(queue.get());
    }
    queues.push_back(std::move(queue));
  }
  std::sort(deviceQueues.begin(), deviceQueues.end(), [&](const Queue *a, const Queue *b) {
    QueueId first = a->recorder.queue, second = b->recorder.queue;
    return std::pair(plan::urgencyOf(layout.queues[first].priority), first) <
           std::pair(plan::urgencyOf(layout.queues[second].priority), second);
  });
  failure.listen([this] {
    stopped = true;
    deviceBell.ring();
    hostBell.ring();
  });
}

HostDevice::~HostDevice() {
  stopped = true;
  deviceBell.ring();
  if (thread.joinable())
    thread.join();
}

void HostDevice::start() {
  thread = std::thread([this] { runQueues(); });
}

void HostDevice::read(Slot from, std::byte *to) { std::copy_n(from.data, from.bytes, to); }

void HostDevice::write(Slot to, const std::byte *from) { std::copy_n(from, to.bytes, to.data); }

std::byte *HostDevice::allocate(plan::Bytes bytes) {
  constexpr plan::Bytes kAddresses = plan::Bytes(1) << 47; // more than a process has
  if (bytes > kAddresses)
    return nullptr;
  // calloc leaves what is never used untouched.
  std::unique_ptr<std::byte, Free> block(static_cast<std::byte *>(std::calloc(size_t(bytes + kAlignment), 1)));
  if (!block)
    return nullptr;
  memory.push_back(std::move(block));
  void *place = memory.back().get();
  size_t space = size_t(bytes + kAlignment);
  return static_cast<std::byte *>(std::align(size_t(kAlignment), size_t(bytes), place, space));
}

void HostDevice::serve(HostBody &ofSteps, Summand &ofSums) {
  body = &ofSteps;
  summand = &ofSums;
}

bool HostDevice::run(const std::shared_ptr<const Round> &round) {
  bool device = false, any = false;
  for (QueueId q = 0; q < queues.size(); ++q) {
    const Stream &stream = (*round->queues)[q];
    if (stream.executed == 0)
      continue;
    bool computes = layout.queues[q].kind == plan::QueueKind::Device;
    queues[q]->push(round, stream, computes ? body : nullptr, summand);
    device |= computes;
    any = true;
    if (!computes)
      queues[q]->ring();
  }
  alwaysStep = round->step;
  fillAll(any ? 0 : round->queues->front().piece);
  if (device)
    deviceQueues.front()->ring();
  return true;
}

/// From now on pieces of so many atoms fill all of the time; 0: none does, and the last has ended.
void HostDevice::fillAll(int64_t atoms) {
  if (!filler || always == atoms)
    return;
  if (atoms == 0) {
    always = 0;
    std::lock_guard ended(pieces);
    return;
  }
  alwaysSince = clock.now();
  always = atoms;
  deviceBell.ring();
}

/// Runs a piece where the program has nothing else to do.
bool HostDevice::runNextPiece(Time &free) {
  if (always == 0)
    return false;
  std::lock_guard running(pieces);
  const int64_t atoms = always;
  if (atoms == 0 || filler->next(atoms) == 0)
    return false;
  free = std::max<Time>(free, alwaysSince);
  const Time begin = std::max(paced.begin(free), free);
  free = std::max(begin, filler->run(atoms, begin));
  queues.front()->recorder.logPiece(alwaysStep, begin, free, atoms, layout.queues.size());
  return true;
}

void HostDevice::wait(QueueId queue, QueueId of, int64_t count) { queues[queue]->wait(of, count); }

void HostDevice::submit(QueueId queue, const Label &label, Slot in, Slot out, HostBody *body, Summand *summand) {
  std::shared_ptr<const Round> round = single(label, in, out);
  queues[queue]->push(round, *round->whole, body, summand);
  queues[queue]->ring();
}

bool HostDevice::synchronize(QueueId of, int64_t count) {
  while (!stopped) {
    if (counters.reached(of, count, queues.size(), hostBell))
      return true;
    hostBell.wait();
  }
  return false;
}

std::optional<HostDevice::Head> HostDevice::head(QueueId id) {
  Time ready = 0;
  const HostWork *work = queues[id]->front(ready);
  return work ? std::optional<Head>({*work, std::max(ready, queues[id]->free)}) : std::nullopt;
}

void HostDevice::finish(QueueId id, const Times &times) {
  Queue &queue = *queues[id];
  queue.recorder.record(times.due, times.realEnd, times.late);
  queue.recorder.log(times.realStart, times.realEnd);
  queue.free = times.free;
  queue.pop(1, times.end);
}

HostDevice::Choice HostDevice::choose(Time free) {
  Choice best;
  bool unknown = false; // a higher queue has no head
  for (Queue *queue : deviceQueues) {
    Choice each = look(*queue, free);
    each.open = unknown;
    if (each.work && (!best.work || each.ready < best.ready))
      best = each;
    unknown |= !each.work;
  }
  return best;
}

void HostDevice::setDeviceBell(Bell &bell) {
  counters.parkOften();
  for (Queue *queue : deviceQueues)
    queue->setBell(bell);
}

std::optional<HostWork> HostDevice::next() {
  const Choice choice = choose(freeAt);
  if (!choice.work)
    return std::nullopt;
  running = choice.queue;
  return *choice.work;
}

/// Adds an operation that took so long. A header takes no time of its own.
static void count(adapt::Tally &tally, const plan::Operation &operation, plan::Time took) {
  if (operation.cost > 0 && !plan::isHeader(operation.kind))
    tally.add(took, operation.cost, 0);
}

void HostDevice::tellMeter(adapt::Tally &tally, Time end, const HostWork *last) {
  if (!meter)
    return;
  if (last && last->round->evaluation > 0)
    last = nullptr;
  if (tally.count != 0)
    meter->computed(std::exchange(tally, {}), end);
  if (last)
    meter->stepped(last->round->step, end);
}

void HostDevice::ended(Time start, Time end) {
  Queue &queue = *running;
  Time ready = 0;
  const HostWork &work = *queue.front(ready);
  adapt::Tally tally;
  count(tally, work.operation(), end - start);
  tellMeter(tally, end, queue.isEnd(1) ? &work : nullptr);
  queue.recorder.log(start, end);
  queue.recorder.record(start, end, 0);
  freeAt = end;
  queue.pop(1, end);
}

/// Runs a piece where no head can start and the wait of the compute queue's has room for one. `since`: when the device
/// became free, `free`: when the pieces since have ended. Where one may begin later, notes it.
bool HostDevice::runPiece(const Choice &next, Time since, Time &free, Wait &noted) {
  noted.later.reset();
  const HostQueue::Fillable wait = queues.front()->fillable();
  if (wait.window.length == 0 || !filler->opens(wait.window.length, wait.stream->windows))
    return false;
  const int64_t atoms = wait.stream->piece;
  const Time opens = since + wait.window.from;
  const Time begin = std::max({paced.begin(free), free, opens}), piece = filler->next(atoms);
  if (piece == 0 || (next.work && next.ready <= begin) ||
      std::max(begin - opens, noted.filled) + piece > wait.window.length)
    return false;
  if (opens > clock.now()) {
    noted.later = opens;
    return false;
  }
  noted.filled += piece;
  free = std::max(begin, filler->run(atoms, begin));
  queues.front()->recorder.logPiece(wait.step, begin, free, atoms, layout.queues.size());
  return true;
}

// Reading the clock costs more than all else of a short instruction, so its last reading serves until something ends
// after it, a step begins or ends, or it has run on for a while; a trace reads it at every end.
void HostDevice::runQueues() {
  constexpr int64_t kMost = 64;         // instructions that end at one reading
  constexpr Time kKept = 1'000'000'000; // 1 ms: for so long what was measured may stay here, while more comes
  const bool alone = deviceQueues.size() == 1;
  QuickClock quick(clock);
  Time free = 0;  // of the device
  Time since = 0; // likewise, but for pieces
  Wait wait;
  Time now = quick.now();
  adapt::Tally tally; // of operations that the meter does not know of
  Time known = 0;     // it knows of those that ended by then
  const auto handOver = [&](const HostWork *last = nullptr) {
    if (tally.count != 0)
      known = free;
    tellMeter(tally, free, last);
  };
  while (true) {
    Choice next = alone ? look(*deviceQueues.front(), free) : choose(free);
    if (filler && !stopped && (runPiece(next, since, free, wait) || runNextPiece(free))) {
      now = quick.now();
      continue;
    }
    if (!next.work) {
      if (stopped)
        return;
      handOver();
      if (wait.later)
        deviceBell.waitUntil(clock.at(*wait.later));
      else
        deviceBell.wait();
      now = quick.now();
      continue;
    }
    Time begin = next.ready + (next.open ? paced.grace(next.work->operation().cost) : 0);
    if (begin > now && begin > (now = quick.now())) { // until then a better one may come
      handOver();
      const Time wakes = std::min(begin, wait.later.value_or(begin)); // a piece may begin before
      if (alone)
        clock.sleepUntil(wakes);
      else
        deviceBell.waitUntil(clock.at(wakes));
      if (stopped)
        return;
      now = quick.now();
      continue;
    }
    Queue &queue = *next.queue;
    HostBody &body = *next.work->body;
    const bool first = queue.isFirst();
    HostBody::Span due{0, next.ready};
    auto run = [&](const HostWork &work) {
      due = body.run(work, due.end); // what comes next on a queue alone could start when this one ended
      if (const plan::OwnCost *cost = work.ownOf(layout.place)) {
        const plan::Own &own = work.round->variant->own[placeIn(layout.place)];
        const Time planned = adapt::healthyTime(own, size_t(cost - own.operations.data()));
        queue.recorder.computed(due.own, due.waited, planned);
        if (planned > 0)
          tally.add(due.own, planned, 0);
      } else {
        count(tally, work.operation(), due.end - due.start);
      }
      return due.end <= now;
    };
    auto runTraced = [&](const HostWork &work) {
      run(work);
      const Time start = now;
      queue.recorder.log(start, now = quick.now());
      return due.end <= now;
    };
    const int64_t most = first || !alone ? 1 : kMost - queue.unread;
    const int64_t ran = tracing ? queue.runOn(most, runTraced) : queue.runOn(most, run);
    if (stopped)
      return;
    queue.unread += ran;
    if (first || queue.isEnd(ran) || queue.unread >= kMost || due.end > now) {
      if (!tracing)
        now = quick.now();
      queue.recorder.record(due.start, now, now - due.end, queue.unread);
      queue.unread = 0;
      free = due.end;
      if (queue.isEnd(ran) || free - known >= kKept)
        handOver(queue.isEnd(ran) ? next.work : nullptr);
      if (filler && queue.isEnd(ran) && &queue == queues.front().get() && next.work->round->evaluation == 0)
        filler->stepped(next.work->round->step, due.end);
    }
    free = since = due.end;
    if (&queue == queues.front().get())
      wait = {};
    queue.pop(ran, due.end);
  }
}

std::vector<runtime::Wait> HostDevice::waits(Time limit) const {
  std::vector<runtime::Wait> all;
  const int64_t real = Clock::monotonic();
  const Time now = clock.now();
  for (const auto &queue : queues) {
    const Time since = queue->waitingSince();
    if (since < 0 || now - since < limit)
      continue;
    const std::optional<HostQueue::Known> head = queue->look();
    if (!head || !head->waitsFor)
      continue;
    const std::string blocker = describeHead(*head->waitsFor);
    const std::string late = fmt::format(
        "{} waits for {}, which did not end", plan::describe(layout.place, *head->operation, head->microbatch),
        blocker.empty() ? fmt::format("queue {}", *head->waitsFor) : fmt::format("\"{}\"", blocker));
    all.push_back({.late = [late] { return late; }, .since = real - (now - since) / 1000});
  }
  return all;
}

std::optional<Pass> HostDevice::pass() {
  for (const Queue *queue : deviceQueues) {
    const std::optional<HostQueue::Known> head = queue->waitingSince() < 0 ? queue->look() : std::nullopt;
    if (!head || head->waitsFor)
      continue;
    const QueueId id = queue->recorder.queue;
    if (const int64_t completed = counters.count(id); seen.queue != id || seen.completed != completed)
      seen = {id, completed, Clock::monotonic()};
    return Pass{"computes " + plan::describe(*head->operation, head->microbatch), seen.since};
  }
  seen.completed = -1;
  return std::nullopt;
}

std::string HostDevice::describeHead(QueueId id) const {
  std::optional<HostQueue::Known> known = queues[id]->look();
  return known ? plan::describe(layout.place, *known->operation, known->microbatch) : std::string();
}

std::vector<trace::Event> HostDevice::takeEvents() {
  std::vector<trace::Event> all;
  for (const auto &queue : queues) {
    std::vector<trace::Event> own = queue->recorder.events();
    all.insert(all.end(), own.begin(), own.end());
    queue->recorder.clearEvents();
  }
  return all;
}

std::vector<Recorder> HostDevice::recorders() const {
  std::vector<Recorder> all;
  for (const auto &queue : queues)
    all.push_back(queue->recorder);
  for (Recorder &recorder : all)
    recorder.settle();
  return all;
}

} // namespace pipec::runtime
