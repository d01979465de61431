// A backend is what a rank runs on: a kind of device with its transport and its stage. A process has one backend.
// Launch and reports know this interface alone. The classes of one kind are named only where the backend is made: for
// the host in HostBackend.cpp, for GPUs in CudaBackend.cpp.
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

  // Called before the first step, in this order, once each, by the issuing thread. makeStage() is also called between
  // two steps, for another cut.

  /// Makes the device ready: memory may be allocated. Code::Run if this process cannot have one.
  virtual Status open() { return {}; }
  /// The device exists from the beginning. Nothing runs before start().
  virtual Device &device() = 0;
  /// Makes the stage that RunOptions::stage names for a plan, which must outlive the stage: the context's plan, or one
  /// of another cut of the model. There is one stage at a time. Free it only at rest, or after a run that ended well:
  /// after a failure some of its work may still run.
  virtual Status makeStage(const plan::Plan &plan, std::unique_ptr<Stage> &stage) = 0;
  /// Makes the transport, over the connections of a meeting if it needs any. The backend owns it.
  virtual Transport &connect(Sockets sockets) = 0;
  /// offer() returns what all other ranks must know about this one before it can exchange data with them. accept()
  /// takes the offers of all, by rank. A null offer means that no rank has any; then accept() is not called. `memory`:
  /// where transfers come from and go to.
  virtual nlohmann::json offer(const TransferMemory &memory) {
    (void)memory;
    return nullptr;
  }
  virtual Status accept(const nlohmann::json &offers, TransferMemory &memory) {
    (void)offers, (void)memory;
    return {};
  }
  /// Makes a process's background job and lets it run while the device waits. Code::Input or Code::Run if the job
  /// cannot be made. The backend owns it.
  virtual Status makeJob(const std::string &choice, const JobSetup &setup, const plan::Job &planned) = 0;
  /// The job, or null. To use while the device is at rest.
  virtual JobFiller *job() { return nullptr; }
  /// Lets everything run. `at`: time 0 in nanoseconds of CLOCK_MONOTONIC, the same instant on all ranks.
  virtual void start(int64_t at) = 0;

  /// After a failure, ends what is under way so that peers notice; may never return.
  virtual void abort() {}

  /// Says that the rank's own steps are done: from now on a peer that closes its connection is no failure. From any
  /// thread.
  virtual void rest() = 0;

  // For messages.

  /// The instruction at the head of a queue, as plan::describe says it; empty if there is none. From any thread.
  virtual std::string head(QueueId queue) const = 0;

  // On the thread of the io_context.

  /// What the rank's instructions wait for. If no instruction has waited for longer than `limit`, the backend may
  /// return nothing, which is faster.
  virtual std::vector<Wait> waits(plan::Time limit) = 0;
  /// The computation that the device runs now, as far as that is known.
  virtual std::optional<Pass> pass() = 0;
  /// Sends a message over the connection with a process, where BackendContext::heard receives it; false: there is no
  /// connection.
  virtual bool say(int32_t process, uint32_t kind, std::shared_ptr<const std::vector<uint8_t>> bytes) {
    (void)process, (void)kind, (void)bytes;
    return false;
  }

  // Called only when everything that was issued has completed.

  /// The records of each queue.
  virtual std::vector<Recorder> recorders() const = 0;
  /// Returns the events of all queues and forgets them.
  virtual std::vector<trace::Event> takeEvents() = 0;
};

/// What a backend is made from. All of it must outlive the backend.
struct BackendContext {
  const plan::Plan &plan;
  int32_t world = 0;    // the process's rank among all
  const Layout &layout; // the rank's queues
  const RunOptions &options;
  asio::io_context &io; // run by another thread
  Failure &failure;
  Meter &meter;              // receives measurements, if the options ask for them
  asio::ip::address address; // the address of this process for the others
  HeardOfPeer heard = {};    // receives messages of other processes over their connections with this one
};

/// Makes the backend that the options name: the host's or CUDA's. Call this before threads are started, as it lets
/// threads that start later wake on time.
std::unique_ptr<Backend> makeBackend(const BackendContext &context);

/// Whether ranks exchange data over connections of their own, which they make when they meet.
bool needsSockets(const RunOptions &options);

} // namespace pipec::runtime
