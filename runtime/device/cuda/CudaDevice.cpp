// Streams, events, and what becomes of them: waits, times, messages.
#include "runtime/device/cuda/CudaDevice.h"

#include "runtime/plan/Disassemble.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

namespace pipec::runtime {

using C = gpu::CudaFunctions;

static gpu::CUdeviceptr addressOf(const std::byte *data) { return reinterpret_cast<gpu::CUdeviceptr>(data); }

namespace {

/// Of devices that were closed while others may have had it mapped.
std::mutex leftMutex;
std::vector<gpu::CUdeviceptr> left;

} // namespace

CudaDevice::CudaDevice(Layout queuesOf, Failure &failure, bool trace, const gpu::CudaFunctions &functions)
    : layout(std::move(queuesOf)), tracing(trace), failure(failure),
      cuda(plan::nameOf(layout.place), failure, functions), queues(layout.queues.size()) {
  for (QueueId q = 0; q < queues.size(); ++q) {
    Recorder &recorder = queues[q].recorder;
    recorder.place = layout.place;
    recorder.queue = q;
    recorder.device = layout.queues[q].kind == plan::QueueKind::Device;
    recorder.trace = trace;
  }
}

CudaDevice::~CudaDevice() {
  for (const CudaQueue &queue : queues)
    if (queue.stream)
      cuda.ask(&C::cuStreamDestroy_v2, queue.stream);
}

bool CudaDevice::makeEvents(std::vector<gpu::CUevent> &events, size_t count, unsigned flags) {
  events.resize(count);
  return std::all_of(events.begin(), events.end(),
                     [&](gpu::CUevent &event) { return cuda(&C::cuEventCreate, &event, flags); });
}

Status CudaDevice::open(int32_t localRank) {
  Status status = cuda.open(localRank);
  if (status.ok()) {
    std::lock_guard lock(leftMutex);
    for (const gpu::CUdeviceptr each : std::exchange(left, {}))
      cuda.ask(&C::cuMemFree_v2, each);
  }
  int least = 0, greatest = 0; // a lower number is a higher priority
  if (!status.ok() || !cuda(&C::cuCtxGetStreamPriorityRange, &least, &greatest) || !loaded.load(cuda))
    return status.ok() ? failure.status() : status;
  for (QueueId q = 0; q < queues.size(); ++q) {
    CudaQueue &queue = queues[q];
    const int wished = queue.recorder.device ? greatest + 1 + plan::urgencyOf(layout.queues[q].priority) : greatest;
    const size_t remembered = size_t(3 * std::max<int64_t>(layout.executed[q], 1) + 1);
    if (!cuda(&C::cuStreamCreateWithPriority, &queue.stream, gpu::kStreamNonBlocking, std::min(wished, least)) ||
        !makeEvents(queue.ends, remembered, tracing ? gpu::kEventDefault : gpu::kEventDisableTiming) ||
        !makeEvents(queue.begins, tracing ? remembered : 0, gpu::kEventDefault))
      return failure.status();
    queue.announced.resize(remembered);
    queue.instructions.resize(remembered);
    queue.waited.resize(4 * remembered);
    queue.past.assign(queues.size(), 0);
    for (CudaQueue::Step &step : queue.steps)
      if (queue.recorder.device && (!cuda(&C::cuEventCreate, &step.begin, gpu::kEventDefault) ||
                                    !cuda(&C::cuEventCreate, &step.end, gpu::kEventDefault)))
        return failure.status();
  }
  for (Anchor &each : anchors)
    if (!cuda(&C::cuEventCreate, &each.event, gpu::kEventDefault))
      return failure.status();
  return {};
}

std::byte *CudaDevice::allocate(plan::Bytes bytes) {
  constexpr plan::Bytes kBlock = plan::Bytes(2) << 20; // what can be shared with another process begins one
  if (started || bytes > (plan::Bytes(1) << 46))
    return nullptr;
  const size_t whole = size_t((std::max<plan::Bytes>(bytes, 1) + kBlock - 1) / kBlock * kBlock);
  gpu::CUdeviceptr made = 0;
  const gpu::CUresult result = cuda.ask(&C::cuMemAlloc_v2, &made, whole);
  if (result == gpu::kCudaOutOfMemory)
    return nullptr;
  if (result != gpu::kCudaSuccess)
    cuda.fail("cuMemAlloc_v2", result);
  if (result == gpu::kCudaSuccess)
    memory.push_back(made);
  return result == gpu::kCudaSuccess && cuda(&C::cuMemsetD8_v2, made, static_cast<unsigned char>(0), whole)
             ? reinterpret_cast<std::byte *>(made)
             : nullptr;
}

plan::Bytes CudaDevice::room() {
  size_t free = 0, total = 0;
  return !started && cuda(&C::cuMemGetInfo_v2, &free, &total) ? plan::Bytes(free) : 0;
}

void *CudaDevice::allocateOnHost(size_t bytes) {
  void *made = nullptr;
  if (!cuda(&C::cuMemHostAlloc, &made, std::max<size_t>(bytes, 1), gpu::kHostPortable))
    return nullptr;
  onHost.push_back(made);
  return made;
}

bool CudaDevice::finish(QueueId id) {
  gpu::CUevent event = queues[id].ends.front();
  gpu::CUresult result = gpu::kCudaNotReady;
  if (!cuda(&C::cuEventRecord, event, queues[id].stream))
    return false;
  while ((result = cuda.ask(&C::cuEventQuery, event)) == gpu::kCudaNotReady && !failure.raised()) {
    if (waiting)
      waiting();
    usleep(500);
  }
  if (result != gpu::kCudaSuccess && !failure.raised())
    cuda.fail("cuEventQuery", result);
  return !failure.raised();
}

void CudaDevice::freeOnHost(void *made) {
  if (std::erase(onHost, made) > 0)
    cuda(&C::cuMemFreeHost, made);
}

bool CudaDevice::isIdle() {
  return std::ranges::all_of(queues, [&](const CudaQueue &queue) {
    return !queue.stream || cuda.ask(&C::cuStreamQuery, queue.stream) == gpu::kCudaSuccess;
  });
}

// What a call says is of no use any more.
void CudaDevice::close(bool mapped) {
  const auto destroy = [&](gpu::CUevent event) {
    if (event)
      cuda.ask(&C::cuEventDestroy_v2, event);
  };
  for (CudaQueue &queue : queues) {
    if (queue.stream)
      cuda.ask(&C::cuStreamDestroy_v2, std::exchange(queue.stream, nullptr));
    for (const std::vector<gpu::CUevent> &events : {std::exchange(queue.ends, {}), std::exchange(queue.begins, {})})
      std::ranges::for_each(events, destroy);
    for (CudaQueue::Step &step : queue.steps) {
      destroy(std::exchange(step.begin, nullptr));
      destroy(std::exchange(step.end, nullptr));
    }
  }
  for (Anchor &each : anchors)
    destroy(std::exchange(each.event, nullptr));
  loaded.unload();
  for (void *each : std::exchange(onHost, {}))
    cuda.ask(&C::cuMemFreeHost, each);
  std::lock_guard lock(leftMutex);
  for (const gpu::CUdeviceptr each : std::exchange(memory, {}))
    if (mapped)
      left.push_back(each);
    else
      cuda.ask(&C::cuMemFree_v2, each);
}

void CudaDevice::read(Slot from, std::byte *to) {
  if (from.bytes > 0)
    cuda(&C::cuMemcpyDtoH_v2, static_cast<void *>(to), addressOf(from.data), size_t(from.bytes));
}

void CudaDevice::write(Slot to, const std::byte *from) {
  if (to.bytes > 0)
    cuda(&C::cuMemcpyHtoD_v2, addressOf(to.data), static_cast<const void *>(from), size_t(to.bytes));
}

// The instant at which an event is known to have passed lies between two readings of the host's clock.
void CudaDevice::start(const Clock &clock) {
  started = true;
  Anchor &first = anchors[0];
  const Time before = clock.now();
  gpu::CUresult result = gpu::kCudaNotReady;
  if (cuda(&C::cuEventRecord, first.event, queues.front().stream))
    while ((result = cuda.ask(&C::cuEventQuery, first.event)) == gpu::kCudaNotReady && !failure.raised())
      ;
  first.time = (before + clock.now()) / 2;
  if (result != gpu::kCudaSuccess && result != gpu::kCudaNotReady)
    cuda.fail("cuEventQuery", result);
}

bool CudaDevice::run(const std::shared_ptr<const Round> &round) {
  anchor(round->step);
  for (QueueId q = 0; q < queues.size(); ++q) {
    CudaQueue &queue = queues[q];
    const int64_t executed = (*round->queues)[q].executed;
    queue.step =
        executed > 0 && round->evaluation == 0 ? &queue.steps[size_t(round->step) % queue.steps.size()] : nullptr;
    if (queue.step) {
      queue.step->first = queue.issued;
      queue.step->last = queue.issued + executed;
      queue.step->round = round;
    }
  }
  return false;
}

void CudaDevice::wait(QueueId id, QueueId of, int64_t count) {
  CudaQueue &queue = queues[id], &other = queues[of];
  if (id == of || count <= queue.past[of])
    return;
  queue.past[of] = count;
  if (count <= other.completed)
    return;
  queue.waited[queue.waits++ % queue.waited.size()] = {of, count};
  cuda(&C::cuStreamWaitEvent, queue.stream, other.ends[other.at(count)], 0U);
}

gpu::CUstream CudaDevice::begin(QueueId id, const Label &label) {
  CudaQueue &queue = queues[id];
  const size_t at = queue.at(queue.issued + 1);
  queue.instructions[at] = {label.operation, label.microbatch, queue.waits};
  if (queue.step && queue.step->begin && queue.issued == queue.step->first)
    cuda(&C::cuEventRecord, queue.step->begin, queue.stream);
  if (tracing)
    cuda(&C::cuEventRecord, queue.begins[at], queue.stream);
  return queue.stream;
}

void CudaDevice::issued(QueueId id, bool awaited) {
  CudaQueue &queue = queues[id];
  const size_t at = queue.at(++queue.issued);
  queue.announced[at] = awaited;
  if (queue.step && queue.step->end && queue.issued == queue.step->last) // first: it is read once the next has passed
    cuda(&C::cuEventRecord, queue.step->end, queue.stream);
  if (awaited || tracing)
    cuda(&C::cuEventRecord, queue.ends[at], queue.stream);
}

bool CudaDevice::isComplete(CudaQueue &queue, int64_t count) {
  if (count <= queue.completed)
    return true;
  const gpu::CUresult result = cuda.ask(&C::cuEventQuery, queue.ends[queue.at(count)]);
  if (result == gpu::kCudaSuccess)
    queue.completed = count;
  else if (result != gpu::kCudaNotReady)
    cuda.fail("cuEventQuery", result);
  return result == gpu::kCudaSuccess;
}

bool CudaDevice::synchronize(QueueId of, int64_t count) {
  CudaQueue &queue = queues[of];
  constexpr int64_t kLeast = 20'000, kMost = 1'000'000, kLooks = 20'000'000; // nanoseconds
  const int64_t begin = Clock::monotonic();
  int64_t described = begin;
  bool waits = false;
  while (!failure.raised() && !isComplete(queue, count)) {
    const int64_t now = Clock::monotonic();
    if (!waits) {
      std::lock_guard lock(mutex);
      since = now;
      waits = true;
    }
    if (now - described > kLooks) {
      if (waiting)
        waiting();
      lookAhead();
      describe();
      described = now;
    }
    timespec pause{0, long(std::clamp((now - begin) / 8, kLeast, kMost))};
    nanosleep(&pause, nullptr);
  }
  if (waits) {
    std::lock_guard lock(mutex);
    since = 0;
    stuck.clear();
    stuckIn = nullptr;
  }
  if (failure.raised())
    return false;
  settle(queue);
  if (watcher)
    watcher();
  return !failure.raised();
}

/// Brings `completed` of all queues up to date, as far as events tell.
void CudaDevice::lookAhead() {
  bool moved = false;
  for (CudaQueue &queue : queues)
    for (int64_t count = queue.completed + 1; count <= queue.issued; ++count)
      if (queue.announced[queue.at(count)]) {
        if (!isComplete(queue, count))
          break;
        moved = true;
      }
  if (moved) {
    std::lock_guard lock(mutex);
    since = Clock::monotonic();
  }
}

/// Whether all that the instruction waits for has completed.
bool CudaDevice::met(const CudaQueue &queue, int64_t count) const {
  const uint64_t end = queue.instructions[queue.at(count)].waits;
  const uint64_t before = count > 1 ? queue.instructions[queue.at(count - 1)].waits : 0;
  const uint64_t kept = end > queue.waited.size() ? end - queue.waited.size() : 0;
  for (uint64_t w = std::max(before, kept); w < end; ++w) {
    const CudaQueue::Wait &wait = queue.waited[w % queue.waited.size()];
    if (queues[wait.queue].completed < wait.count)
      return false;
  }
  return true;
}

/// Says which instruction keeps the others waiting: one whose own waits are met, a transfer rather than a computation.
void CudaDevice::describe() {
  const CudaQueue *worst = nullptr;
  for (const bool device : {false, true})
    for (const CudaQueue &queue : queues)
      if (!worst && queue.recorder.device == device && queue.issued > queue.completed &&
          met(queue, queue.completed + 1))
        worst = &queue;
  if (!worst)
    return;
  const CudaQueue::Instruction &head = worst->instructions[worst->at(worst->completed + 1)];
  std::lock_guard lock(mutex);
  stuck = plan::describe(layout.place, *head.operation, head.microbatch);
  stuckIn = head.operation;
  stuckMicrobatch = head.microbatch;
}

std::string CudaDevice::head() const {
  std::lock_guard lock(mutex);
  return stuck;
}

static constexpr int64_t kPatience = 500'000'000; // nanoseconds

/// Whether the thread that issues has been in a call of the driver for longer than calls take.
bool CudaDevice::isInCall() {
  const int64_t now = Clock::monotonic();
  const gpu::Inside::Seen inside = cuda.calls().look();
  if (!inside.name || inside.name != seen.name || inside.count != seen.count) {
    seen = inside;
    seenSince = now;
  }
  return inside.name && now - seenSince > kPatience;
}

std::vector<Wait> CudaDevice::waits(const std::function<std::vector<int32_t>(const plan::Operation &)> &others) {
  std::lock_guard lock(mutex);
  const auto wait = [](std::string late, std::vector<int32_t> whom, int64_t from) {
    return std::vector<Wait>{{[late = std::move(late)] { return late; }, std::move(whom), from}};
  };
  if (isInCall())
    return wait(fmt::format("{}: {} did not return", plan::nameOf(layout.place), seen.name), {}, seenSince);
  if (since == 0)
    return {};
  // Who waits says what for soon, unless the driver keeps it.
  if (!stuckIn)
    return wait(plan::nameOf(layout.place) + ": what was issued on the GPU did not end", {}, since + kPatience);
  return wait(stuck + " did not end", others(*stuckIn), since);
}

std::optional<Pass> CudaDevice::pass() {
  std::lock_guard lock(mutex);
  if (isInCall())
    return Pass{fmt::format("is in {}", seen.name), seenSince, true};
  if (since > 0 && stuckIn && !plan::isCommunication(stuckIn->kind))
    return Pass{"computes " + plan::describe(*stuckIn, stuckMicrobatch), since};
  return std::nullopt;
}

// An event of a step is later than the anchor of the step before: no work of the step was issued before that had
// passed.
void CudaDevice::anchor(int64_t step) {
  Anchor &next = anchors[size_t(step) % anchors.size()];
  if (firstStep < 0) { // start() has recorded the first
    firstStep = step;
    std::swap(next, anchors[0]);
    return;
  }
  next.time.reset();
  cuda(&C::cuEventRecord, next.event, queues.front().stream);
}

/// 0 after a failure, which has been raised then.
CudaDevice::Time CudaDevice::timeOf(gpu::CUevent event, int64_t step) {
  const int64_t by = std::max(step - 1, firstStep);
  Anchor &from = anchors[size_t(by) % anchors.size()];
  if (!from.time)
    from.time = timeOf(from.event, by);
  float milliseconds = 0;
  cuda(&C::cuEventElapsedTime, &milliseconds, from.event, event);
  return *from.time + Time(std::llround(double(milliseconds) * 1e9));
}

/// Hands steps that have completed to the recorder, oldest first.
void CudaDevice::settle(CudaQueue &queue) {
  for (;;) {
    CudaQueue::Step *oldest = nullptr;
    for (CudaQueue::Step &step : queue.steps)
      if (step.round && step.last <= queue.completed && (!oldest || step.last < oldest->last))
        oldest = &step;
    if (!oldest)
      return;
    const std::shared_ptr<const Round> round = std::move(oldest->round);
    queue.recorder.begin(round, (*round->queues)[queue.recorder.queue]);
    for (int64_t count = oldest->first + 1; tracing && count <= oldest->last; ++count) {
      const Time begin = timeOf(queue.begins[queue.at(count)], round->step);
      queue.recorder.log(begin, std::max(begin, timeOf(queue.ends[queue.at(count)], round->step)));
    }
    if (oldest->begin)
      queue.recorder.record(timeOf(oldest->begin, round->step), timeOf(oldest->end, round->step), 0,
                            oldest->last - oldest->first);
  }
}

std::vector<Recorder> CudaDevice::recorders() const {
  std::vector<Recorder> all;
  for (const CudaQueue &queue : queues) {
    all.push_back(queue.recorder);
    all.back().settle();
  }
  return all;
}

std::vector<trace::Event> CudaDevice::takeEvents() {
  std::vector<trace::Event> all;
  for (CudaQueue &queue : queues) {
    std::vector<trace::Event> own = queue.recorder.events();
    all.insert(all.end(), own.begin(), own.end());
    queue.recorder.clearEvents();
  }
  return all;
}

} // namespace pipec::runtime
