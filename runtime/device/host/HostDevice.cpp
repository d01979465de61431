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

HostDevice::HostDevice(Layout queuesOf, const Clock &clock, Failure &failure, bool trace)
    : layout(std::move(queuesOf)), clock(clock), counters(historySizes(layout, kHistory), layout.queues.size() + 1) {
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
    for (auto &queue : queues) {
      std::lock_guard lock(queue->mutex);
      queue->notFull.notify_all();
    }
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

void HostDevice::push(QueueId id, const Entry &entry) {
  Queue &queue = *queues[id];
  bool wasEmpty;
  {
    std::unique_lock lock(queue.mutex);
    queue.notFull.wait(lock, [&] { return queue.entries.size() < kCapacity || stopped; });
    wasEmpty = queue.entries.empty();
    queue.entries.push_back(entry);
  }
  if (wasEmpty)
    queue.bell->ring();
}

void HostDevice::wait(QueueId queue, QueueId of, int64_t count) {
  Entry entry;
  entry.isWait = true;
  entry.of = of;
  entry.count = count;
  push(queue, entry);
}

void HostDevice::submit(QueueId queue, const HostWork &work) {
  Entry entry;
  entry.work = work;
  push(queue, entry);
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
  Queue &queue = *queues[id];
  std::lock_guard lock(queue.mutex);
  while (!queue.entries.empty() && queue.entries.front().isWait) {
    const Entry &entry = queue.entries.front();
    std::optional<Time> time = counters.reached(entry.of, entry.count, id, *queue.bell);
    if (!time) {
      if (queue.waitingSince < 0)
        queue.waitingSince = std::max<Time>(clock.now(), 0);
      return std::nullopt;
    }
    queue.waitingSince = -1;
    queue.ready = std::max(queue.ready, *time);
    queue.entries.pop_front();
    queue.notFull.notify_one();
  }
  if (queue.entries.empty())
    return std::nullopt;
  return Head{queue.entries.front().work, std::max(queue.ready, queue.free)};
}

void HostDevice::finish(QueueId id, const Times &times) {
  Queue &queue = *queues[id];
  {
    std::lock_guard lock(queue.mutex);
    queue.recorder.record(queue.entries.front().work.label, times.due, times.realStart, times.realEnd, times.late);
    queue.entries.pop_front();
    queue.ready = 0;
    queue.free = times.free;
    queue.notFull.notify_one();
  }
  counters.post(id, times.end);
}

void HostDevice::runQueues() {
  Time free = 0; // of the device
  while (!stopped) {
    std::optional<Head> best;
    QueueId from = 0;
    for (QueueId q : deviceQueues) {
      std::optional<Head> candidate = head(q);
      if (!candidate)
        continue;
      candidate->ready = std::max(candidate->ready, free);
      if (!best || candidate->ready < best->ready) {
        best = candidate;
        from = q;
      }
    }
    if (!best) {
      deviceBell.wait();
      continue;
    }
    if (best->ready > clock.now()) { // until then a better one may come
      if (deviceQueues.size() > 1) {
        deviceBell.waitUntil(clock.at(best->ready));
        continue;
      }
      clock.sleepUntil(best->ready);
    }
    Time realStart = clock.now();
    HostBody::Span due = best->work.body->run(best->work, best->ready);
    free = due.end;
    if (stopped)
      return;
    Time realEnd = clock.now();
    finish(from, {free, free, due.start, realStart, realEnd, realEnd - free});
  }
}

std::optional<std::string> HostDevice::overdue(Time limit) const {
  for (QueueId q = 0; q < queues.size(); ++q) {
    QueueId of;
    {
      std::lock_guard lock(queues[q]->mutex);
      if (queues[q]->waitingSince < 0 || clock.now() - queues[q]->waitingSince < limit || queues[q]->entries.empty())
        continue;
      of = queues[q]->entries.front().of;
    }
    std::string blocker = describeHead(of);
    return fmt::format("{} waits for {}, which did not end", describeHead(q),
                       blocker.empty() ? fmt::format("queue {}", of) : fmt::format("\"{}\"", blocker));
  }
  return std::nullopt;
}

std::string HostDevice::describeHead(QueueId id) const {
  const Queue &queue = *queues[id];
  std::lock_guard lock(queue.mutex);
  for (const Entry &entry : queue.entries)
    if (!entry.isWait)
      return plan::describe(layout.rank, *entry.work.label.operation, entry.work.label.microbatch);
  return {};
}

std::vector<Recorder> HostDevice::recorders() const {
  std::vector<Recorder> all;
  for (const auto &queue : queues)
    all.push_back(queue->recorder);
  return all;
}

} // namespace pipec::runtime
