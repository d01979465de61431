// The device of a rank on a GPU: a stream for each queue, and events for what is waited for. Everything is issued by
// the interpreter's thread, which only enqueues: it waits (by asking again and again) where a step is more than two
// ahead, and nowhere else. Times come from events: of every instruction where a trace is written, else of each step's
// beginning and end on the queues that compute.
#pragma once

#include "runtime/device/Clock.h"
#include "runtime/device/Layout.h"
#include "runtime/device/Wait.h"
#include "runtime/device/cuda/CudaQueue.h"
#include "runtime/device/cuda/Kernels.h"

#include <array>
#include <functional>
#include <mutex>
#include <optional>

namespace pipec::runtime {

class CudaDevice final : public Device {
public:
  using Time = plan::Time;

  /// `failure` outlives the device. `functions`: as the driver's.
  CudaDevice(Layout layout, Failure &failure, bool trace, const gpu::CudaFunctions &functions = {});
  ~CudaDevice() override; // what is under way goes on; memory and events stay until the process ends

  /// Opens the driver, on device `localRank` modulo those that are visible, and makes streams and events. On the
  /// thread that issues.
  Status open(int32_t localRank);
  /// Nothing is allocated from now on. Times count from time 0 of `clock`.
  void start(const Clock &clock);

  bool run(const std::shared_ptr<const Round> &round) override;
  void wait(QueueId queue, QueueId of, int64_t count) override;
  bool synchronize(QueueId of, int64_t count) override;
  void issued(QueueId queue, bool awaited) override;
  void *stream(QueueId queue) override { return on(queue); }
  std::byte *allocate(plan::Bytes bytes) override;
  plan::Bytes room() override;
  void read(Slot from, std::byte *to) override;
  void write(Slot to, const std::byte *from) override;

  // For stages and transports of this device, on the thread that issues.

  /// Begins an instruction: what is put on the stream until issued() is its work.
  gpu::CUstream begin(QueueId queue, const Label &label);
  gpu::CUstream on(QueueId queue) const { return queues[queue].stream; }
  Driver &driver() { return cuda; }
  Kernels &kernels() { return loaded; }
  /// Memory of the host that the GPU reaches too, at the same address; nullptr if there is not enough. At rest.
  void *allocateOnHost(size_t bytes);
  void freeOnHost(void *memory);
  /// Calls `look` whenever the host has waited for a queue; null: no more.
  void watch(std::function<void()> look) { watcher = std::move(look); }
  /// Calls `look` time and again while the host waits.
  void whileWaiting(std::function<void()> look) { waiting = std::move(look); }
  /// Waits until all that was put on a queue has ended, before the first step; false if the run has failed.
  bool finish(QueueId queue);
  /// Whether all that was put on the queues has ended.
  bool isIdle();
  /// Gives back all that the device has, for a process that goes on: once it is idle, and at its end. `mapped`: other
  /// processes may still have its memory mapped; then that stays until the process opens its next device, whose run
  /// meets once they have left this one.
  void close(bool mapped);
  /// How many multiprocessors the GPU has.
  int processors() { return cuda.processors(); }

  // For messages, from any thread.

  /// What does not end: "rank 1: recv … from rank 0 did not end", or a call of the driver. `others`: the processes that
  /// an instruction needs.
  std::vector<Wait> waits(const std::function<std::vector<int32_t>(const plan::Operation &)> &others);
  /// What the thread that issues, or the GPU, is in.
  std::optional<Pass> pass();
  /// The first instruction that had not ended when that was last looked at; empty if nobody had to wait.
  std::string head() const;

  // While nothing is issued that has not completed.
  std::vector<Recorder> recorders() const;
  std::vector<trace::Event> takeEvents();

private:
  bool makeEvents(std::vector<gpu::CUevent> &events, size_t count, unsigned flags);
  bool isComplete(CudaQueue &queue, int64_t count);
  void lookAhead();
  void describe();
  bool isInCall();
  bool met(const CudaQueue &queue, int64_t count) const;
  void anchor(int64_t step);
  void settle(CudaQueue &queue);
  Time timeOf(gpu::CUevent event, int64_t step);

  const Layout layout;
  const bool tracing;
  Failure &failure;
  Driver cuda;
  Kernels loaded;
  std::vector<CudaQueue> queues;
  std::vector<gpu::CUdeviceptr> memory;
  std::vector<void *> onHost;
  std::function<void()> watcher, waiting;
  bool started = false;

  // Times of instants from which others are counted, one a step, since the driver counts in floating point.
  struct Anchor {
    gpu::CUevent event = nullptr;
    std::optional<Time> time;
  };
  std::array<Anchor, 4> anchors;
  int64_t firstStep = -1;

  mutable std::mutex mutex; // over what follows, which other threads read
  std::string stuck;
  const plan::Operation *stuckIn = nullptr; // null: it is not known in what
  int64_t stuckMicrobatch = 0;
  int64_t since = 0; // nanoseconds of CLOCK_MONOTONIC at which the thread that issues last saw anything end; 0: it
                     // waits for nothing
  gpu::Inside::Seen seen;
  int64_t seenSince = 0;
};

} // namespace pipec::runtime
