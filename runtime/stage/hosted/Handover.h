// Where the thread of a program that runs a rank in its own process (the host) meets the rank's threads. The host's
// thread asks for its next duty, does it and says so; nobody calls it. Instructions of the device queues come from the
// device without a step between: the thread stands where the device's own would. On a GPU, whose instructions are
// issued one by one, and for all that is no instruction of a queue, the rank's thread asks and waits for the answer.
#pragma once

#include "runtime/device/Failure.h"
#include "runtime/device/host/HostDevice.h"
#include "runtime/stage/Stage.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace pipec::runtime {

/// What the host is to do.
struct Duty {
  enum class Kind : uint8_t {
    Nothing,   // yet
    Work,      // of a stage (plan::isOfStage): label, slots
    Norm,      // answer with the sum of the squares of the rank's gradients
    Clip,      // `number`: the same of all ranks
    Save,      // to a new file at `path`, after `step` steps
    Load,      // the opposite
    EndOfStep, // between two steps, `step` of which are done; the next question begins another
    End,       // the run has ended
  };
  Kind kind = Kind::Nothing;
  Label label = {};
  StageSlots slots = {}; // of Norm and Clip on a GPU: where the number goes to or is
  void *stream = nullptr;
  double number = 0;
  std::string path = {};
  int64_t step = 0;
};

class Handover {
public:
  using Clock = std::chrono::steady_clock;

  // The host's thread.

  /// Waits for the next duty until then; Nothing: there is none yet, or the run has failed. Where the last duty was the
  /// end of a step, the question begins the next one.
  Duty next(Clock::time_point until);
  /// The last duty is done. `error`: what went wrong; empty: nothing. `number`: the answer to Norm.
  void done(const std::string &error, double number);
  /// No more steps. Between two steps.
  void finish();
  /// Between two steps: what is left of the last one comes now, then its end again.
  void drain();
  /// Likewise: all of the last one comes, then so many rounds of an evaluation, then the end of the step again.
  void evaluate(int64_t rounds);
  /// The host asks for nothing more and is in nothing.
  void close();
  /// The run has failed, for this reason. From any thread, also before a rank is there.
  void fail(Status status);
  /// Of the run; ok: it has not failed.
  Status failed() const { return failure.status(); }

  // The rank's threads.

  /// What goes wrong on the rank or the host goes wrong on both, until the rank leaves.
  void join(Failure &rank);
  /// Waits until the host is done with what it has, whose slots are the rank's.
  void leave();
  /// The host runs the device queues of this device in `place`, by its `clock`. Before the device starts.
  void attach(HostDevice &device, const plan::Place &place, const runtime::Clock &clock);
  /// Likewise on a device whose instructions are asked for. `enter` is called on the host's thread with every duty, so
  /// that the device is that of the thread.
  void stand(const plan::Place &place, std::function<void()> enter);
  /// Waits until the host has done it. Returns what went wrong: in the host's words, or that the run has failed.
  std::string ask(Duty duty);
  /// Returns at once. `answered` hears the host's number on the host's thread; it is quick, and not called once the run
  /// has failed, as it has where the host says that something went wrong.
  void ask(Duty duty, std::function<void(double)> answered);
  /// Waits until the host begins `step`. False: it wants no more steps, or the run has failed. `drain` waits until all
  /// steps before have completed, `evaluate` runs so many rounds of an evaluation; false if the run failed.
  bool awaitStep(int64_t step, const std::function<bool()> &drain, const std::function<bool(int64_t)> &evaluate);
  /// The run has ended well: nothing more is to do.
  void end();
  /// Calls it once the run fails: to end a wait of another kind.
  void onFailure(std::function<void()> listener) { failure.listen(std::move(listener)); }

private:
  struct Asked {
    Duty duty;
    std::function<void(double)> answered = {}; // none: somebody waits
    bool done = false;
    std::string error = {};
  };
  void wake();
  bool take(Duty &duty);
  bool takeWork(Duty &duty);
  bool isStepOver() const;

  Failure failure;
  std::mutex joined; // over the next; taken before `mutex`
  Failure *ofRank = nullptr;
  ParkingBell bell; // of the host's thread

  HostDevice *device = nullptr; // null: instructions are asked for
  const runtime::Clock *clock = nullptr;
  std::function<void()> enter; // none: the thread needs nothing
  plan::Place place;

  std::mutex mutex;                         // over all that follows
  std::condition_variable begins;           // a step, or none will
  std::condition_variable answers;          // the host, or it leaves
  std::deque<std::shared_ptr<Asked>> asked; // the first one is with the host, unless `direct`
  Duty::Kind current = Duty::Kind::Nothing; // not done yet
  bool direct = false;                      // it is the device's
  Label label;                              // of an instruction: what is with the host
  plan::Time start = 0;
  int64_t awaited = -1; // the step that the rank waits to begin
  int64_t begun = -1;   // the last that the host has begun
  bool between = false; // two steps
  bool drains = false;  // the rank is to wait until all is done
  int64_t rounds = 0;   // of an evaluation that the rank is to run; 0: of none
  bool finished = false;
  bool closed = false;
  bool ended = false;
};

} // namespace pipec::runtime
