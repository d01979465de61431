// Queues in memory and the thread that runs the device's. A lower queue starts work only while all higher ones wait:
// among heads that could start, the one that could start first goes, and at one instant the higher one (design,
// section 5).
#include "runtime/device/host/HostDevice.h"

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
    : layout(std::move(queuesOf)), tracing(trace), pace(pace), clock(clock),
      counters(historySizes(layout, kHistory), layout.queues.size() + 1) {
  for (QueueId q = 0; q < layout.queues.size(); ++q) {
    auto queue = std::make_unique<Queue>();
    bool device = layout.queues[q].kind == plan::QueueKind::Device;
    queue->recorder.rank = layout.rank;
    queue->recorder.queue = q;
    queue->recorder.device = device;
    queue->recorder.trace = trace;
    queue->priority = layout.queues[q].priority;
    if (device) {
      queue->bell = &deviceBell;
      deviceQueues.push_back(q);
    }
    queues.push_back(std::move(queue));
  }
  std::sort(deviceQueues.begin(), deviceQueues.end(), [&](QueueId a, QueueId b) {
    return std::pair(queues[a]->priority, a) < std::pair(queues[b]->priority, b);
  });
  failure.listen([this] {
    stopped = true;
    deviceBell.ring();
    hostBell.ring();
    for (auto &queue : queues)
      queue->ring.wakeIssuer();
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

void HostDevice::wait(QueueId queue, QueueId of, int64_t count) {
  if (queues[queue]->ring.pushWait(of, count, stopped))
    queues[queue]->bell->ring();
}

void HostDevice::submit(QueueId queue, const HostWork &work) {
  if (queues[queue]->ring.pushWork(work, stopped))
    queues[queue]->bell->ring();
}

bool HostDevice::synchronize(QueueId of, int64_t count) {
  while (!stopped) {
    if (counters.reached(of, count, queues.size(), hostBell))
      return true;
    hostBell.wait();
  }
  return false;
}

/// The work at the head once all waits before it are met, and when it can start. The waits that are met are gone.
const HostWork *HostDevice::front(QueueId id, Time &ready) {
  Queue &queue = *queues[id];
  while (Ring::Entry *entry = queue.ring.front()) {
    if (!entry->isWait) {
      ready = std::max(queue.ready, queue.free);
      return &entry->work;
    }
    std::optional<Time> time = counters.reached(entry->of, entry->count, id, *queue.bell);
    if (!time) {
      if (queue.waitingSince.load(std::memory_order_relaxed) < 0)
        queue.waitingSince.store(std::max<Time>(clock.now(), 0), std::memory_order_relaxed);
      return nullptr;
    }
    if (queue.waitingSince.load(std::memory_order_relaxed) >= 0)
      queue.waitingSince.store(-1, std::memory_order_relaxed);
    queue.ready = std::max(queue.ready, *time);
    queue.ring.pop();
  }
  return nullptr;
}

std::optional<HostDevice::Head> HostDevice::head(QueueId id) {
  Time ready = 0;
  const HostWork *work = front(id, ready);
  return work ? std::optional<Head>({*work, ready}) : std::nullopt;
}

void HostDevice::finish(QueueId id, const Times &times) {
  Queue &queue = *queues[id];
  queue.recorder.record(queue.ring.front()->work.label, times.due, times.realStart, times.realEnd, times.late);
  queue.ready = 0;
  queue.free = times.free;
  queue.ring.pop();
  counters.post(id, times.end);
}

/// Carried times are those of the simulator, where what is known at an instant is known at once; here word of it takes
/// a while to come. So work of a lower queue is held for a little of its own time, in which a higher queue's head that
/// was ready by then may still come. Its deadline stays, so that what is held ends no later.
HostDevice::Time HostDevice::grace(const plan::Operation &operation) const {
  constexpr Time kMost = 2'000'000'000; // 2 ms, far more than a wake takes on a machine that is not overloaded
  return pace == Pace::Carry ? std::min(operation.cost / 4, kMost) : 0;
}

// Reading the clock costs more than all else of a short instruction, so its last reading serves until something ends
// after it, or has run on for a while; a trace reads it at every end.
void HostDevice::runQueues() {
  constexpr int kUnread = 64; // instructions
  Time free = 0;              // of the device
  Time now = clock.now();
  int unread = 0;
  while (!stopped) {
    const HostWork *best = nullptr;
    Time ready = 0;
    QueueId from = 0;
    bool open = false; // a higher queue than `from` may get a head that was ready by then
    bool unknown = false;
    for (QueueId q : deviceQueues) {
      Time candidate = 0;
      const HostWork *work = front(q, candidate);
      candidate = std::max(candidate, free);
      if (work && (!best || candidate < ready)) {
        best = work;
        ready = candidate;
        from = q;
        open = unknown;
      }
      unknown |= !work;
    }
    if (!best) {
      deviceBell.wait();
      now = clock.now();
      continue;
    }
    Time begin = ready + (open ? grace(*best->label.operation) : 0);
    if (begin > now && begin > (now = clock.now())) { // until then a better one may come
      if (deviceQueues.size() > 1)
        deviceBell.waitUntil(clock.at(begin));
      else
        clock.sleepUntil(begin);
      now = clock.now();
      continue;
    }
    Time start = now;
    HostBody::Span due = best->body->run(*best, ready);
    free = due.end;
    if (stopped)
      return;
    if (tracing || due.end > now || ++unread == kUnread) {
      now = clock.now();
      unread = 0;
    }
    finish(from, {free, free, due.start, start, now, now - free});
  }
}

std::optional<std::string> HostDevice::overdue(Time limit) const {
  for (QueueId q = 0; q < queues.size(); ++q) {
    Time since = queues[q]->waitingSince.load(std::memory_order_relaxed);
    std::optional<QueueId> of = queues[q]->ring.waitsFor();
    if (since < 0 || clock.now() - since < limit || !of)
      continue;
    std::string blocker = describeHead(*of);
    return fmt::format("{} waits for {}, which did not end", describeHead(q),
                       blocker.empty() ? fmt::format("queue {}", *of) : fmt::format("\"{}\"", blocker));
  }
  return std::nullopt;
}

std::string HostDevice::describeHead(QueueId id) const {
  std::optional<Ring::Known> known = queues[id]->ring.peek();
  return known ? plan::describe(layout.rank, *known->operation, known->microbatch) : std::string();
}

std::vector<Recorder> HostDevice::recorders() const {
  std::vector<Recorder> all;
  for (const auto &queue : queues)
    all.push_back(queue->recorder);
  return all;
}

} // namespace pipec::runtime
