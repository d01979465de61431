// What a rank runs on: a kind of device with the transport and the stage that belong to it. A process has one backend.
// Launch and reports know this interface alone. The classes of one kind are named only where the backend
// is made: for the host in HostBackend.cpp, for GPUs in CudaBackend.cpp.
#pragma once

#include "runtime/backend/RunOptions.h"
#include "runtime/device/Failure.h"
#include "runtime/device/Layout.h"
#include "runtime/device/Meter.h"
#include "runtime/device/Recorder.h"
#include "runtime/device/Wait.h"
#include "runtime/interpreter/TransferMemory.h"
#include "runtime/job/JobFiller.h"
#include "runtime/stage/Stage.h"
#include "runtime/transport/Talk.h"
#include "runtime/transport/Transport.h"
#include "runtime/transport/host/Meeting.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace pipec::runtime {

class Backend {
public:
  virtual ~Backend() = default;

  // Called before the first step, in this order, once each; makeStage() also between two steps, for another cut. By
  // the thread that issues.

  /// Makes the device ready: memory may be allocated. Code::Run if this process cannot have one.
  virtual Status open() { return {}; }
  /// The device exists from the beginning. Nothing runs before start().
  virtual Device &device() = 0;
  /// Makes the stage that RunOptions::stage names for a plan, which outlives it: the context's, or one of another cut
  /// of the model. One at a time. Free it only at rest, or after a run that ended well: after a failure some of its
  /// work may still run.
  virtual Status makeStage(const plan::Plan &plan, std::unique_ptr<Stage> &stage) = 0;
  /// Makes the transport, over the connections of a meeting if it needs any. The backend owns it.
  virtual Transport &connect(Sockets sockets) = 0;
  /// What all other ranks must know of this one before it can exchange data with them, and what they said, by rank.
  /// Null: nothing, of any rank; then accept() is not called. `memory` is where transfers come from and go to.
  virtual nlohmann::json offer(const TransferMemory &memory) {
    (void)memory;
    return nullptr;
  }
  virtual Status accept(const nlohmann::json &offers, TransferMemory &memory) {
    (void)offers, (void)memory;
    return {};
  }
  /// Makes a process's job and lets it fill the waits of the device. Code::Input or Code::Run if it cannot be made. The
  /// backend owns it.
  virtual Status makeJob(const std::string &choice, const JobSetup &setup, const plan::Job &planned) = 0;
  /// The job, or null; while the device is at rest.
  virtual JobFiller *job() { return nullptr; }
  /// Lets everything run. `at`: the nanosecond of CLOCK_MONOTONIC that is time 0, the same instant on all ranks.
  virtual void start(int64_t at) = 0;

  /// Ends what is under way, after a failure, so that peers see it; may never return.
  virtual void abort() {}

  /// Says that the rank's own steps are done: a peer that goes is no failure from now on. From any thread.
  virtual void rest() = 0;

  // For messages.

  /// The instruction at the head of a queue, as plan::describe says it; empty if there is none. From any thread.
  virtual std::string head(QueueId queue) const = 0;

  // On the thread of the io_context.

  /// What the rank's instructions wait for. Where no instruction has waited for longer than `limit`, the backend may
  /// return nothing, which is quicker.
  virtual std::vector<Wait> waits(plan::Time limit) = 0;
  /// The computation that the device is in, as far as that is known.
  virtual std::optional<Pass> pass() = 0;
  /// Sends a message, as BackendContext::heard hears it, over the connection with a process; false: there is none.
  virtual bool say(int32_t process, uint32_t kind, std::shared_ptr<const std::vector<uint8_t>> bytes) {
    (void)process, (void)kind, (void)bytes;
    return false;
  }

  // Called only while all that was issued has completed.

  /// What each queue did.
  virtual std::vector<Recorder> recorders() const = 0;
  /// Hands out the events of all queues and forgets them.
  virtual std::vector<trace::Event> takeEvents() = 0;
};

/// What a backend is made with. All of it outlives the backend.
struct BackendContext {
  const plan::Plan &plan;
  int32_t world = 0;    // the process's rank among all
  const Layout &layout; // the rank's queues
  const RunOptions &options;
  asio::io_context &io; // run by another thread
  Failure &failure;
  Meter &meter;              // hears what is measured, if the options want that
  asio::ip::address address; // at which the others reach this process
  HeardOfPeer heard = {};    // what other processes say over their connections with this one
};

/// Makes the backend that the options name: the host's or CUDA's. Call it before threads are started: it makes threads
/// that start later wake on time.
std::unique_ptr<Backend> makeBackend(const BackendContext &context);

/// Whether ranks exchange data over connections of their own, which they then make when they meet.
bool needsSockets(const RunOptions &options);

} // namespace pipec::runtime
