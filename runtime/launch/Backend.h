// What a rank runs on: a kind of device with the transport and the stage that belong to it. A process has one. Launch,
// reports and the watchdog know this interface alone and name no class of any kind; HostBackend.cpp is where they are
// made.
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/device/Layout.h"
#include "runtime/device/Recorder.h"
#include "runtime/launch/Worker.h"
#include "runtime/stage/Stage.h"
#include "runtime/transport/Transport.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipec::runtime {

class Backend {
public:
  virtual ~Backend() = default;

  // Before the first step, in this order, once each.

  /// There from the beginning. Memory may be allocated; nothing runs before start().
  virtual Device &device() = 0;
  /// What computes (RunOptions::stage). It goes only after a run that ended well: else something of it may still run.
  virtual Status makeStage(std::unique_ptr<Stage> &stage) = 0;
  /// The transport over the connections of a meeting. The backend's.
  virtual Transport &connect(Sockets sockets) = 0;
  /// Lets everything run. `at`: the nanosecond of CLOCK_MONOTONIC that is time 0, the same instant on all ranks.
  virtual void start(int64_t at) = 0;

  /// The rank's own steps are done: from now on peers may go. From any thread.
  virtual void rest() = 0;

  // For messages.

  /// The instruction at the head of a queue, as plan::describe says it; empty if there is none. From any thread.
  virtual std::string head(QueueId queue) const = 0;
  /// What some queue has waited for longer than `limit`, and for whom. On the thread of the io_context.
  virtual std::optional<std::string> overdue(plan::Time limit) const = 0;

  // While nothing is issued that has not completed.

  /// What each queue did.
  virtual std::vector<Recorder> recorders() const = 0;
  /// The events of all queues, which then begin anew.
  virtual std::vector<trace::Event> takeEvents() = 0;
};

/// What a backend is made for; all outlive it.
struct BackendContext {
  const plan::Plan &plan;
  int32_t rank = 0;
  const Layout &layout; // of the rank
  const RunOptions &options;
  asio::io_context &io; // another thread runs it
  Failure &failure;
};

/// The backend of --device, of which there is one kind so far: the host. Call it before threads are started: those that
/// come after are made to wake on time.
std::unique_ptr<Backend> makeBackend(const BackendContext &context);

} // namespace pipec::runtime
