// The device of one rank: queues that run work in order, a counter of completions for each, and memory for transfers.
// Everything is issued from one thread, the interpreter's, and runs later: step by step on a device that walks the
// streams of its queues itself, else instruction by instruction. What puts work on a queue (a stage, a transport) is
// written for one kind of device and knows its class; the interpreter knows this interface alone.
#pragma once

#include "runtime/plan/Plan.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace pipec::runtime {

using QueueId = uint32_t; // index into plan::Program::queues

struct Stream;

/// Names the executed instruction that a piece of work belongs to, for messages, tags and traces.
struct Label {
  const plan::Operation *operation = nullptr; // the plan's, which outlives the run
  int64_t microbatch = 0;
  int64_t step = 0;
  int64_t epoch = 0;               // number of the plan or variant that runs: counts up at each swap
  const Stream *program = nullptr; // the stream that has the step
  int64_t evaluation = 0;          // for an evaluation before `step`: its round, from 1; else 0
};

/// A transfer buffer, or none. The memory is the device's.
struct Slot {
  std::byte *data = nullptr;
  plan::Bytes bytes = 0; // of this transfer; the slot may be larger
};

/// The alignment of every transfer slot, so that stages can use vector instructions on it.
inline constexpr plan::Bytes kAlignment = 64;

struct Round;

class Device {
public:
  virtual ~Device() = default;

  /// Takes one step of a program. A device with threads of its own returns true and runs the stream of each of its
  /// queues by itself. Any other returns false, and the interpreter issues the step's instructions one by one, in issue
  /// order, through wait() below, the stage and the transport. CUDA: false. An event must be recorded before a stream
  /// can wait for it, and a launch is a call.
  virtual bool run(const std::shared_ptr<const Round> &) { return false; }

  /// Work issued on `queue` from now on starts only once queue `of` has counted `count` completions since the run
  /// began. Each piece of work counts one when it completes. Does not wait itself, except while the queue is full,
  /// which cannot stop a plan: a wait names only what was issued before it. CUDA: cudaStreamWaitEvent on an event
  /// recorded after that work.
  virtual void wait(QueueId queue, QueueId of, int64_t count) = 0;

  /// Parks the calling thread until queue `of` has counted `count`, of what was issued on it. False if the run failed
  /// meanwhile (a lost peer, a deadline): then nothing that was issued may be relied upon. CUDA: cudaEventSynchronize,
  /// by a thread that also watches for errors.
  virtual bool synchronize(QueueId of, int64_t count) = 0;

  /// To call once an instruction has been issued on `queue`, by whoever issues instruction by instruction. `awaited`:
  /// some wait() or synchronize() will name the count that the queue has then; no other is ever named. CUDA: then an
  /// event is recorded.
  virtual void issued(QueueId queue, bool awaited) { (void)queue, (void)awaited; }

  /// The stream for work of others, if the device has streams, else nullptr. CUDA: the CUstream.
  virtual void *stream(QueueId queue) {
    (void)queue;
    return nullptr;
  }

  /// Allocates zeroed memory, aligned to kAlignment, that lives as long as the device; nullptr if there is not enough.
  /// One thread at a time. If allocating would wait for running work, a device refuses once it has started.
  virtual std::byte *allocate(plan::Bytes bytes) = 0;
  /// To call once everything issued has completed. Until the next step nothing of this rank runs, not even a background
  /// job.
  virtual void rest() {}
  /// The number of bytes that the device can still allocate, if it knows; 0 once it has started and refuses.
  virtual plan::Bytes room() { return INT64_MAX; }

  // The host reaches a device's memory only through these. At rest only: everything issued has completed.

  /// Copies what `from` holds to the host.
  virtual void read(Slot from, std::byte *to) = 0;
  virtual void write(Slot to, const std::byte *from) = 0;
};

/// By queue: the number of instructions executed in a step, by which its counter advances.
std::vector<int64_t> executedByQueue(const plan::Program &program);

} // namespace pipec::runtime
