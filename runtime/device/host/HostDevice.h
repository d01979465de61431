// The device of a rank on the host. It takes whole steps, and the thread that runs a queue walks that queue's stream.
// One thread runs all device queues of the rank, by priority. The transport runs the communicator queues and takes
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
    plan::Time own = 0;    // with shards: time computing
    plan::Time waited = 0; // with shards: time waiting for the others
  };
  /// Runs on the device's thread and returns when the work has ended. `ready`: when the work could start. Returns when
  /// it was due to start and end in the run's clock, if time is emulated; else when it really did.
  virtual Span run(const HostWork &work, plan::Time ready) = 0;
};

class HostDevice final : public Device {
public:
  using Time = plan::Time;

  /// `clock` and `failure` must outlive the device. Nothing runs before start(). A program converts to a layout of its
  /// own queues.
  HostDevice(Layout layout, const Clock &clock, Failure &failure, bool trace, Pace pace = Pace::Real);
  ~HostDevice() override; // ends the device's thread, after its current work

  bool run(const std::shared_ptr<const Round> &round) override;
  void rest() override { fillAll(0); }
  void wait(QueueId queue, QueueId of, int64_t count) override;
  bool synchronize(QueueId of, int64_t count) override;
  std::byte *allocate(plan::Bytes bytes) override;
  void read(Slot from, std::byte *to) override;
  void write(Slot to, const std::byte *from) override;

  /// Sets what the instructions of steps do: `body` computes, `summand` serves all-reduces. Before run().
  void serve(HostBody &body, Summand &summand);

  /// Puts a single instruction on a queue.
  void submit(QueueId queue, const Label &label, Slot in, Slot out, HostBody *body, Summand *summand = nullptr);

  // At rest only: everything issued has completed.

  /// The time of the last completion, in the run's clock.
  Time completed() const { return counters.last(); }
  /// Work issued from now on starts no earlier than `time`.
  void goOnAt(Time time) { counters.setFloor(time); }

  /// Lets `meter`, which outlives the device, know of operations and steps. Before start().
  void measure(Meter &meter) { this->meter = &meter; }

  /// Lets `filler`, which outlives the device, run pieces while all heads wait. Before start().
  void fill(Filler &filler) { this->filler = &filler; }

  void start();

  // For a thread that runs the device queues in place of the device's own thread, which start() would begin. Times are
  // real, and no piece of a job runs.

  /// The work to do now: the head that could start first, at equal times that of the higher queue. Nothing: no head can
  /// start; the bells of the queues ring when that may have changed.
  std::optional<HostWork> next();
  /// To call when the work of next() has run from `start` to `end`.
  void ended(Time start, Time end);

  // For the thread that runs a communicator queue.

  /// `bell` rings when head(queue) may return more than at the last call. Before start().
  void setBell(QueueId queue, Bell &bell) { queues[queue]->setBell(bell); }
  /// The same for all device queues, if another thread than the device's runs them: it parks about once per
  /// instruction.
  void setDeviceBell(Bell &bell);

  struct Head {
    HostWork work;
    Time ready; // when its waits were met and the queue was free; may lie in the future
  };
  /// The work at the head of the queue, if all waits before it are met.
  std::optional<Head> head(QueueId queue);

  /// To call when the head has completed: it held the queue until `free` and counts as complete at `end`. The other
  /// times are recorded: when it was due to start, when it really started and ended, and how late it was.
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

  /// The waits of queues that have lasted longer than `limit`: "rank 1: F stage 1 microbatch 0 waits for recv …, which
  /// did not end".
  std::vector<runtime::Wait> waits(Time limit) const;
  /// The computation that a device queue runs. Its time counts from when this function first saw it. From one thread.
  std::optional<Pass> pass();
  /// The instruction at the head of a queue, as plan::describe says it; empty if there is none.
  std::string describeHead(QueueId queue) const;

  /// The records of all queues. After the run, or after a failure once this object's threads and the transport's have
  /// ended.
  std::vector<Recorder> recorders() const;
  /// Returns the events of all queues and forgets them. Only while everything issued has completed.
  std::vector<trace::Event> takeEvents();

private:
  static constexpr size_t kHistory = size_t(1) << 20; // remembered times of a counter

  struct Queue : HostQueue {
    using HostQueue::HostQueue;
    Time free = 0;      // communicator: end of its last work
    int64_t unread = 0; // device: instructions that ended since the last record
  };
  struct Choice {
    Queue *queue = nullptr;
    const HostWork *work = nullptr; // null: nothing can start
    Time ready = 0;
    bool open = false; // a higher queue may still get a head that was ready before
  };
  static Choice look(Queue &queue, Time free) {
    Time ready = 0;
    const HostWork *work = queue.front(ready);
    return {&queue, work, std::max(ready, free), false};
  }
  Choice choose(Time free);
  /// A wait of the compute queue.
  struct Wait {
    Time filled = 0;           // time filled with pieces, also before another device queue's work during the wait
    std::optional<Time> later; // when a piece may begin; none: not before another event
  };
  bool runPiece(const Choice &next, Time since, Time &free, Wait &noted);
  void fillAll(int64_t atoms);
  /// Reports operations that ended by `end` to the meter, and, if `last` was the last of a step on its queue, the step.
  void tellMeter(adapt::Tally &tally, Time end, const HostWork *last);
  bool runNextPiece(Time &free);
  void runQueues();

  Queue *running = nullptr; // the queue that next() took the last work from
  Time freeAt = 0;          // when the previous work of next() ended

  const Layout layout;
  const bool tracing;
  const PaceClock paced;
  const Clock &clock;
  Counters counters;
  std::vector<std::unique_ptr<Queue>> queues;
  std::vector<Queue *> deviceQueues; // highest priority first
  HostBody *body = nullptr;
  Summand *summand = nullptr;
  Meter *meter = nullptr;             // null: nothing is measured
  Filler *filler = nullptr;           // null: the device waits
  std::atomic<int64_t> always{0};     // atoms per piece of a rank without instructions; 0: no piece runs
  std::atomic<Time> alwaysSince{0};   // since when these pieces run
  std::atomic<int64_t> alwaysStep{0}; // the last step that was issued
  std::mutex pieces;                  // held while such a piece runs
  struct Seen {
    QueueId queue = 0;
    int64_t completed = -1;
    int64_t since = 0; // nanoseconds of CLOCK_MONOTONIC
  };
  Seen seen; // what pass() saw last
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
