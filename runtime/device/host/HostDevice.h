// The device of a rank on the host: it takes steps whole, and whoever runs a queue walks that queue's stream. One
// thread runs all device queues of the rank, by priority; communicator queues are run by the transport, which takes
// their heads from here. Memory is ordinary memory.
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/device/Filler.h"
#include "runtime/device/Layout.h"
#include "runtime/device/Meter.h"
#include "runtime/device/PaceClock.h"
#include "runtime/device/Wait.h"
#include "runtime/device/host/HostQueue.h"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace pipec::runtime {

/// What a device queue's work does, given by the stage.
class HostBody {
public:
  virtual ~HostBody() = default;
  struct Span {
    plan::Time start;
    plan::Time end;
    plan::Time own = 0;    // of a shard: what of it was computing
    plan::Time waited = 0; // and waiting for the others
  };
  /// Runs on the device's thread and returns when the work has ended; `ready` is when it could start. The result is
  /// when it was due to start and end in the run's clock, where time is emulated; else when it did.
  virtual Span run(const HostWork &work, plan::Time ready) = 0;
};

class HostDevice final : public Device {
public:
  using Time = plan::Time;

  /// `clock` and `failure` outlive the device. Nothing runs before start(). A program's own queues serve as a layout.
  HostDevice(Layout layout, const Clock &clock, Failure &failure, bool trace, Pace pace = Pace::Real);
  ~HostDevice() override; // ends the device's thread, after the work that it is in

  bool run(const std::shared_ptr<const Round> &round) override;
  void rest() override { fillAll(0); }
  void wait(QueueId queue, QueueId of, int64_t count) override;
  bool synchronize(QueueId of, int64_t count) override;
  std::byte *allocate(plan::Bytes bytes) override;
  void read(Slot from, std::byte *to) override;
  void write(Slot to, const std::byte *from) override;

  /// What the instructions of steps do: computations are `body`'s, an all-reduce is of `summand`. Before run().
  void serve(HostBody &body, Summand &summand);

  /// Puts a single instruction on a queue.
  void submit(QueueId queue, const Label &label, Slot in, Slot out, HostBody *body, Summand *summand = nullptr);

  // At rest: what was issued has completed.

  /// When that was, in the run's clock.
  Time completed() const { return counters.last(); }
  /// What is issued from now on starts no earlier.
  void goOnAt(Time time) { counters.setFloor(time); }

  /// Lets `meter`, which outlives the device, know of operations and steps. Before start().
  void measure(Meter &meter) { this->meter = &meter; }

  /// Lets `filler`, which outlives the device, run pieces while all heads wait. Before start().
  void fill(Filler &filler) { this->filler = &filler; }

  void start();

  // For who runs the device queues in place of the device's own thread, which start() would begin: one thread. Times
  // are real, and no piece of a job runs.

  /// The work to do now: of the heads that can start the one that could first, at one instant a higher queue's. None:
  /// nothing can; the bells of the queues ring when that may have changed.
  std::optional<HostWork> next();
  /// What next() gave took from `start` to `end`.
  void ended(Time start, Time end);

  // For who runs a communicator queue: one thread.

  /// `bell` rings when head(queue) may give more than it last did. Before start().
  void setBell(QueueId queue, Bell &bell) { queues[queue]->setBell(bell); }
  /// Likewise of all device queues, which another thread than the device's runs: it parks about once an instruction.
  void setDeviceBell(Bell &bell);

  struct Head {
    HostWork work;
    Time ready; // when its waits were met and the queue was free; may lie in the future
  };
  /// The work at the head of the queue, if all waits before it are met.
  std::optional<Head> head(QueueId queue);

  /// The head has completed: it held the queue until `free` and counts as complete at `end`. Of the rest a record is
  /// kept: when it was due to start, when it really started and ended, and how late it was.
  struct Times {
    Time free;
    Time end;
    Time due;
    Time realStart;
    Time realEnd;
    Time late;
  };
  void finish(QueueId queue, const Times &times);

  // For messages.

  /// What queues have waited for longer than `limit`: "rank 1: F stage 1 microbatch 0 waits for recv …, which did not
  /// end".
  std::vector<runtime::Wait> waits(Time limit) const;
  /// The computation that a device queue is in. Its time counts from when it was first seen here. From one thread.
  std::optional<Pass> pass();
  /// The instruction at the head of a queue, as plan::describe says it; empty if there is none.
  std::string describeHead(QueueId queue) const;

  /// After the run, or after a failure once this object's threads and the transport's stand still.
  std::vector<Recorder> recorders() const;
  /// The events of all queues, which then begin anew. Only while nothing is issued that has not completed.
  std::vector<trace::Event> takeEvents();

private:
  static constexpr size_t kHistory = size_t(1) << 20; // remembered times of a counter

  struct Queue : HostQueue {
    using HostQueue::HostQueue;
    Time free = 0;      // of a communicator: end of the last work
    int64_t unread = 0; // of the device: instructions that ended since one was recorded
  };
  struct Choice {
    Queue *queue = nullptr;
    const HostWork *work = nullptr; // none: nothing can start
    Time ready = 0;
    bool open = false; // a higher queue may still get a head that was ready by then
  };
  static Choice look(Queue &queue, Time free) {
    Time ready = 0;
    const HostWork *work = queue.front(ready);
    return {&queue, work, std::max(ready, free), false};
  }
  Choice choose(Time free);
  /// Of the compute queue.
  struct Wait {
    Time filled = 0;           // with pieces, also before another device queue's work in it
    std::optional<Time> later; // when a piece may begin; none: not before something else happens
  };
  bool runPiece(const Choice &next, Time since, Time &free, Wait &noted);
  void fillAll(int64_t atoms);
  /// Of operations that ended by `end`, and, where it was the last of a step on its queue, of `last`.
  void tellMeter(adapt::Tally &tally, Time end, const HostWork *last);
  bool runNextPiece(Time &free);
  void runQueues();

  Queue *running = nullptr; // the queue that next() took the last work from
  Time freeAt = 0;          // when what next() gave before had ended

  const Layout layout;
  const bool tracing;
  const PaceClock paced;
  const Clock &clock;
  Counters counters;
  std::vector<std::unique_ptr<Queue>> queues;
  std::vector<Queue *> deviceQueues; // highest priority first
  HostBody *body = nullptr;
  Summand *summand = nullptr;
  Meter *meter = nullptr;             // none: nothing is measured
  Filler *filler = nullptr;           // none: the device waits
  std::atomic<int64_t> always{0};     // atoms of the pieces of a rank that has nothing else to do; 0: none run
  std::atomic<Time> alwaysSince{0};   // they have run
  std::atomic<int64_t> alwaysStep{0}; // the last that was issued
  std::mutex pieces;                  // while one of them does
  struct Seen {
    QueueId queue = 0;
    int64_t completed = -1;
    int64_t since = 0; // nanoseconds of CLOCK_MONOTONIC
  };
  Seen seen; // by pass()
  ParkingBell deviceBell;
  ParkingBell hostBell;
  struct Free {
    void operator()(std::byte *block) const { std::free(block); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> memory;
  std::atomic<bool> stopped{false};
  std::thread thread;
};

} // namespace pipec::runtime
