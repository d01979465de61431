// The device of a rank on a GPU: a stream for each queue, and events for what is waited for. The interpreter's thread
// issues everything and only enqueues: it waits (by polling) only if a step is more than two ahead. Times come from
// events: of every instruction if a trace is written, else of the beginning and end of each step on the queues that
// compute.
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

  /// `failure` must outlive the device. `functions`: as for Driver.
  CudaDevice(Layout layout, Failure &failure, bool trace, const gpu::CudaFunctions &functions = {});
  ~CudaDevice() override; // work under way goes on; memory and events stay until the process ends

  /// Opens the driver on device `localRank` modulo the number of visible devices, and makes streams and events. On the
  /// issuing thread.
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

  // For stages and transports of this device, on the issuing thread.

  /// Begins an instruction: what is put on the stream until issued() is its work.
  gpu::CUstream begin(QueueId queue, const Label &label);
  gpu::CUstream on(QueueId queue) const { return queues[queue].stream; }
  Driver &driver() { return cuda; }
  Kernels &kernels() { return loaded; }
  /// Memory of the host that the GPU reaches too, at the same address; nullptr if there is not enough. At rest.
  void *allocateOnHost(size_t bytes);
  void freeOnHost(void *memory);
  /// Calls `look` whenever the host has waited for a queue; null: stops that.
  void watch(std::function<void()> look) { watcher = std::move(look); }
  /// Calls `look` repeatedly while the host waits.
  void whileWaiting(std::function<void()> look) { waiting = std::move(look); }
  /// Waits until everything on a queue has ended, before the first step; false if the run has failed.
  bool finish(QueueId queue);
  /// Whether everything on the queues has ended.
  bool isIdle();
  /// Frees everything that the device has, for a process that goes on. To call once the device is idle, at its end.
  /// `mapped`: other processes may still have its memory mapped. Then the memory stays until the process opens its next
  /// device; that run meets once the others have left this one.
  void close(bool mapped);
  /// The number of the GPU's multiprocessors.
  int processors() { return cuda.processors(); }

  // For messages, from any thread.

  /// The waits that do not end: "rank 1: recv … from rank 0 did not end", or a call of the driver. `others`: the
  /// processes that an instruction needs.
  std::vector<Wait> waits(const std::function<std::vector<int32_t>(const plan::Operation &)> &others);
  /// The call that the issuing thread is in, or the computation that the GPU runs.
  std::optional<Pass> pass();
  /// The first instruction that had not ended at the last check; empty if no thread had to wait.
  std::string head() const;

  // Only while everything issued has completed.
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

  // Anchors of times, one per step: other times count from them, since the driver counts in floating point.
  struct Anchor {
    gpu::CUevent event = nullptr;
    std::optional<Time> time;
  };
  std::array<Anchor, 4> anchors;
  int64_t firstStep = -1;

  mutable std::mutex mutex; // guards what follows, which other threads read
  std::string stuck;
  const plan::Operation *stuckIn = nullptr; // null: unknown
  int64_t stuckMicrobatch = 0;
  int64_t since = 0; // when the issuing thread last saw work end, CLOCK_MONOTONIC nanoseconds; 0: it waits for none
  gpu::Inside::Seen seen;
  int64_t seenSince = 0;
};

} // namespace pipec::runtime
